"""Agent-loop tasks over made-up files and tables: list, read, search, query, compute, convert.

units   quantities and how tools write numbers
facts   sentences of files, and the questions they answer
tables  small databases, and questions with the SQL that answers them
world   one conversation's files, tables and tools, and what its tools return
chains  sub-questions: the calls that answer them, each built from the results before

Everything is drawn afresh for every conversation; nothing of the package's own demo appears here.
"""
