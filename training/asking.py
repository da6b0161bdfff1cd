# ruff: noqa: E501 -- sentences are data: one a line reads better than wrapped ones
"""Requests for the tools of everyday domains: a goal and a phrase for each value, in many orders and tellings.

Knows sketches and values; nothing of schemas.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from training.naming import Split, capital, choose, pick, series, slots_of, stopped, uncapital, words
from training.sketches import Sketch, Slot
from training.spoken import Spoken

OPENERS = {
    "c": (
        "What is {g}?", "Calculate {g}.", "Compute {g}.", "Find {g}.", "Determine {g}.", "Work out {g}.", "What's {g}?", "Can you calculate {g}?",
        "I need to know {g}.", "Could you compute {g}?", "Help me calculate {g}.", "Please find {g}.", "I want to calculate {g}.", "Tell me {g}.",
        "Can you find {g}?", "How do I get {g}?", "Give me {g}.", "I'd like to know {g}.", "Estimate {g}.", "Please calculate {g}.", "Evaluate {g}.",
        "Could you work out {g} for me?", "Can you help me determine {g}?", "My teacher wants {g}.", "We need {g}.", "I wonder what {g} is.",
        "Any idea what {g} is?", "How big is {g}?", "Let me know {g}.", "Do you know {g}?", "Please determine {g}.", "Please compute {g}.", "I must find {g}.",
        "Help me with {g}.", "I have to calculate {g}.", "Can you work out {g}?", "I would like to calculate {g}.", "Figure out {g}.", "Could you tell me {g}?",
        "For my notes: {g}.", "Question: what is {g}?", "I am trying to find {g}.", "Quick: {g}?", "Show me {g}.", "I'm asked for {g}.",
        "Will you compute {g}?", "I can't work out {g}.",
        "Get {g}.", "Give {g}.", "State {g}.", "Derive {g}.", "Obtain {g}.", "Solve for {g}.", "Provide {g}.", "Return {g}.", "Kindly compute {g}.", "Kindly find {g}.",
        "Do work out {g}.", "Could you find {g}?", "Could you calculate {g}?", "Could you determine {g}?", "Could you give me {g}?", "Would you calculate {g}?",
        "Would you work out {g}?", "Would you mind computing {g}?", "Can you compute {g}?", "Can you give me {g}?", "Can you get {g} for me?", "Will you work out {g}?",
        "Are you able to calculate {g}?", "Is it possible to compute {g}?", "Would it be possible to determine {g}?", "May I have {g}?", "Might I ask for {g}?",
        "Could I get {g}?", "Can I have {g}?", "Could I have {g}, please?", "I'm looking for {g}.", "I want {g}.", "I need {g}.", "I'd like {g}.",
        "I'd like you to compute {g}.", "I want you to calculate {g}.", "I need you to work out {g}.", "I am after {g}.", "I have been asked to compute {g}.",
        "I was asked for {g}.", "I wish to know {g}.", "I would love to know {g}.", "I'd be glad to know {g}.", "I'm curious about {g}.", "I'm interested in {g}.",
        "I keep getting {g} wrong.", "I was wondering about {g}.", "I have no idea how to get {g}.", "I am not sure about {g}.", "I'm unsure how to calculate {g}.",
        "I'm stuck on {g}.", "I should work out {g}.", "Let's calculate {g}.", "Let's find {g}.", "Let us determine {g}.", "Let me have {g}.", "We have to find {g}.",
        "We want to know {g}.", "We would like to compute {g}.", "We are asked to calculate {g}.", "Our task is to find {g}.", "My task is to compute {g}.",
        "The task: calculate {g}.", "The question is {g}.", "Wanted: {g}.", "To find: {g}.", "Needed: {g}.", "Asked for: {g}.", "Exercise: find {g}.", "Homework: {g}.",
        "One question: what is {g}?", "Tell us {g}.", "Do the math for {g}.", "Run the numbers on {g}.", "Crunch the numbers for {g}.", "Make a calculation of {g}.",
        "Please evaluate {g}.", "Please work out {g}.", "Please tell me {g}.", "Please give me {g}.", "Please let me know {g}.", "Please help me find {g}.",
        "Please figure out {g}.", "Please get me {g}.", "Can somebody work out {g}?", "Who can tell me {g}?", "How would I calculate {g}?", "How can I find {g}?",
        "How do you compute {g}?", "How do I work out {g}?", "Say, what is {g}?", "So what is {g}?", "And what is {g}?", "Now, what would be {g}?",
        "What would be {g}?", "What will be {g}?", "What might be {g}?", "What do you get for {g}?", "What comes out as {g}?",
        "What should I put down as {g}?", "Help us work out {g}.", "Help me get {g}.", "Help me to determine {g}.", "Assist me with {g}.", "Have a go at {g}.",
        "Establish {g}.", "Report {g}.", "Output {g}.", "Name {g}.", "Just give me {g}.", "Just calculate {g}.", "Put a number on {g}.",
        "Be so kind as to calculate {g}.", "Do me a favor and compute {g}.", "The teacher wants to know {g}.", "My boss asked for {g}.", "They asked me for {g}.",
        "For the report I need {g}.", "{g}, please.", "{g}?", "{g}",
    ),
    "g": (
        "Get {g}.", "Find {g}.", "Show me {g}.", "Look up {g}.", "Retrieve {g}.", "Give me {g}.", "Tell me {g}.", "Fetch {g}.", "I want to see {g}.",
        "Can you find {g}?", "I'm looking for {g}.", "Could you get me {g}?", "Search for {g}.", "I need {g}.", "Please find {g}.", "Can you tell me {g}?",
        "Provide me with {g}.", "Find me {g}.", "I'd like {g}.", "Can you show me {g}?", "Please look up {g}.", "Could you look up {g} for me?",
        "Find out {g}.", "Would you check {g}?", "Help me find {g}.", "I wonder about {g}.", "Get me {g}, please.", "Where can I find {g}?", "Do you have {g}?",
        "Let me see {g}.", "Bring up {g}.", "Please get {g}.", "I would like to see {g}.", "Could you find {g}?", "What about {g}?", "Is there {g}?",
        "Pull up {g}.", "We are looking for {g}.", "I'd love to have {g}.", "Please show me {g}.", "Could you show me {g}?", "Please tell me {g}.",
        "Any news on {g}?", "Let me know {g}.", "We want {g}.", "Please search for {g}.", "May I see {g}?", "Do look for {g}.",
        "Locate {g}.", "Display {g}.", "List {g}.", "Check {g}.", "Dig up {g}.", "Look for {g}.", "Look into {g}.", "Hunt for {g}.", "Obtain {g}.", "Provide {g}.",
        "Read me {g}.", "Name {g}.", "Present {g}.", "Give us {g}.", "Show us {g}.", "Tell us {g}.", "Get us {g}.", "Kindly find {g}.", "Kindly show me {g}.",
        "Kindly look up {g}.", "Just show me {g}.", "Just give me {g}.", "Quickly find {g}.", "Can you get me {g}?", "Can you get {g}?", "Can you look up {g}?",
        "Can you give me {g}?", "Can you check {g}?", "Can you fetch {g} for me?", "Can you search for {g}?", "Can you pull up {g}?", "Can you bring up {g}?",
        "Can you help me find {g}?", "Could you give me {g}?", "Could you check {g}?", "Could you fetch {g}?", "Could you search for {g}?", "Could you bring me {g}?",
        "Could you please find {g}?", "Could you retrieve {g}?", "Would you find {g}?", "Would you look up {g}?", "Would you show me {g}?", "Would you tell me {g}?",
        "Would you mind looking up {g}?", "Would you mind finding {g}?", "Will you find {g} for me?", "Will you show me {g}?", "Are you able to find {g}?",
        "Is it possible to see {g}?", "Could I see {g}?", "Can I see {g}?", "Can I get {g}?", "Could I get {g}?", "Might I see {g}?", "May I ask for {g}?",
        "I want {g}.", "I want to know {g}.", "I want to find {g}.", "I need to see {g}.", "I need to find {g}.", "I need to look up {g}.", "I'd like to see {g}.",
        "I'd like to know {g}.", "I'd like to find {g}.", "I would like {g}.", "I would love to see {g}.", "I am interested in {g}.", "I'm curious about {g}.",
        "I am searching for {g}.", "I'm trying to find {g}.", "I have to look up {g}.", "I must see {g}.", "I could use {g}.", "I was asked for {g}.",
        "I was told you have {g}.", "I can't find {g}.", "I cannot find {g} anywhere.", "I'm missing {g}.", "We need {g}.", "We would like to see {g}.",
        "We'd like {g}.", "We have to find {g}.", "We are after {g}.", "My boss wants {g}.", "My boss asked for {g}.", "A friend asked me about {g}.",
        "Let us see {g}.", "Let's look up {g}.", "Let's see {g}.", "Let's find {g}.", "Let me have {g}.", "Let me look at {g}.", "Please fetch {g}.",
        "Please retrieve {g}.", "Please give me {g}.", "Please provide {g}.", "Please check {g}.", "Please help me find {g}.", "Please pull up {g}.",
        "Please bring up {g}.", "Who can tell me {g}?", "What can you tell me about {g}?", "Anything on {g}?", "Any information on {g}?", "How do I find {g}?",
        "How can I see {g}?", "Got {g}?", "Wanted: {g}.", "Needed: {g}.", "Search: {g}.", "Lookup: {g}.", "Info on {g}.", "Have a look at {g}.", "Have a look for {g}.",
        "Do find {g}.", "Help us find {g}.", "Help me look up {g}.", "Be so kind as to find {g}.", "Do me a favor and look up {g}.", "Point me to {g}.", "Send me {g}.",
        "Hand me {g}.", "{g}, please.", "{g}?", "{g}",
    ),
    "!": (
        "{g}.", "{g}.", "{g}", "Please {g}.", "Can you {g}?", "Could you {g}?", "I want to {g}.", "I'd like to {g}.", "I need to {g}.", "Help me {g}.",
        "Could you please {g}?", "I want you to {g}.", "Would you {g}?", "We would like to {g}.", "Go ahead and {g}.", "Let's {g}.", "My plan is to {g}.",
        "Let us {g}.", "Now {g}.", "I have to {g}.", "Is it possible to {g}?", "Would you mind helping me {g}?", "Time to {g}.", "Please help me {g}.",
        "It would be great to {g}.", "We need to {g}.", "I was going to {g}.", "Just {g}.", "I intend to {g}.", "Will you {g}?", "I'd love to {g}.",
        "Kindly {g}.",
        "Can you please {g}?", "Can you help me {g}?", "Could you help me {g}?", "Could you {g} for me?", "Would you please {g}?", "Would you kindly {g}?",
        "Would you be able to {g}?", "Would it be possible to {g}?", "Are you able to {g}?", "Might you {g}?", "I'd like you to {g}.", "I would like you to {g}.",
        "I need you to {g}.", "I would like to {g}.", "I must {g}.", "I should {g}.", "I am trying to {g}.", "I'm planning to {g}.", "I was asked to {g}.",
        "I have been told to {g}.", "I am going to {g}.", "I'm about to {g}.", "I hope to {g}.", "I wish to {g}.", "I forgot to {g}.", "I promised to {g}.",
        "We want to {g}.", "We have to {g}.", "We plan to {g}.", "We'd like to {g}.", "We must {g}.", "We are going to {g}.", "We decided to {g}.",
        "My boss wants me to {g}.", "My job is to {g}.", "The task is to {g}.", "The plan: {g}.", "Task: {g}.", "To do: {g}.", "{g}, will you?", "{g}, thanks.",
        "{g} for me.", "Please do {g}.", "Please just {g}.", "Quickly {g}.", "Simply {g}.", "OK, {g}.", "Well, {g}.", "Hey, {g}.", "Right, {g}.",
        "Be so kind as to {g}.", "Be so good as to {g}.", "Do me a favor and {g}.", "Make sure to {g}.", "Remember to {g}.", "Don't forget to {g}.", "Try to {g}.",
        "See to it that you {g}.", "Feel free to {g}.", "Assist me to {g}.", "Help us {g}.", "Help us to {g}.", "It is time to {g}.", "It would help to {g}.",
        "All I want is to {g}.", "What I need is to {g}.", "Somebody has to {g}.", "Someone should {g}.", "How about we {g}?", "Shall we {g}?",
        "Could we {g}?", "Can I {g}?", "Could I {g}?", "I wonder if you could {g}.", "I'd be glad if you could {g}.", "I'd appreciate it if you could {g}.",
        "It would be lovely if you could {g}.", "If you can, {g}.", "If possible, {g}.", "If you don't mind, {g}.", "When you have a moment, {g}.",
        "At your earliest convenience, {g}.",
    ),
}  # fmt: skip
STORIES = (
    "I am working on a problem. {s} {q}", "{s} {q}", "Here is what I know: {s} {q}", "We have the following. {s} {q}", "For my homework: {s} {q}",
    "Suppose this: {s} {q}", "I have a question. {s} {q}", "These are the details. {s} {q}", "{q} {s}", "Let me explain. {s} {q}", "{s} Now, {q}",
    "{s} That is all I know. {q}", "Imagine the following. {s} {q}", "My case: {s} {q}", "{s} So: {q}", "Some facts first. {s} {q}", "{q} What I know: {s}",
    "{q} The data: {s}", "From my notes: {s} {q}", "We know this much: {s} {q}",
    "Here are the facts. {s} {q}", "This is what I have. {s} {q}", "This is given: {s} {q}", "Given: {s} {q}", "The following is known. {s} {q}", "Known: {s} {q}",
    "Let me tell you what I know. {s} {q}", "A bit of background. {s} {q}", "Background: {s} {q}", "Details: {s} {q}", "The situation is this. {s} {q}",
    "The setting: {s} {q}", "Picture this: {s} {q}", "Consider the following. {s} {q}", "Assume the following. {s} {q}", "Say we have this: {s} {q}",
    "Let us say this: {s} {q}", "This is my case. {s} {q}", "My data are these. {s} {q}", "My numbers and names: {s} {q}", "I wrote down the following. {s} {q}",
    "On my sheet it says: {s} {q}", "The sheet says: {s} {q}", "The exercise says: {s} {q}", "A friend gave me this. {s} {q}", "My boss sent me this: {s} {q}",
    "A customer wrote: {s} {q}", "Someone gave me the details. {s} {q}", "First the details. {s} {q}", "First, what I know. {s} {q}", "To begin with: {s} {q}",
    "{s} With that: {q}", "{s} Given that: {q}", "{s} My question: {q}", "{s} The question: {q}", "{s} Here is my question. {q}", "{s} That is the data. {q}",
    "{s} That's everything. {q}", "{s} This is all I have. {q}", "{s} With this in mind: {q}", "{s} From this: {q}", "{s} Please help. {q}",
    "{q} Here is what I have: {s}", "{q} Details: {s}", "{q} These are the facts: {s}", "{q} Here are the details. {s}", "{q} You will need this: {s}",
    "{q} This is what I know. {s}", "{q} This is given: {s}", "{q} For that, note: {s}", "{q} In my case: {s}", "{q} My notes say: {s}", "{q} Known so far: {s}",
    "{q} Input: {s}", "Input: {s} {q}", "I need help with this. {s} {q}", "I have to do this today. {s} {q}", "There is something I want. {s} {q}",
)  # fmt: skip
NAMED = (
    "with the {n} {v}", "{n}: {v}", "with {n} set to {v}", "where the {n} is {v}", "with {v} as the {n}", "using {n} {v}", "and {n} {v}", "({n} {v})",
    "having {v} as the {n}", "whose {n} is {v}", "taking {v} as the {n}", "for the {n} {v}", "with {n} = {v}", "at a {n} of {v}", "and with the {n} {v}",
    "with {n} {v}", "with {n}: {v}", "with {v} for the {n}", "with a {n} of {v}", "with the {n} at {v}", "where {n} is {v}", "where {n} = {v}", "when the {n} is {v}",
    "if the {n} is {v}", "using {v} as the {n}", "using {v} for the {n}", "using the {n} {v}", "using a {n} of {v}", "taking {v} for the {n}", "taking the {n} as {v}",
    "the {n} being {v}", "its {n} being {v}", "for a {n} of {v}", "given {v} as the {n}", "given the {n} {v}", "given that the {n} is {v}", "and {v} as the {n}",
    "and the {n} {v}", "and {v} for the {n}", "({n}: {v})", "({n} = {v})", "(the {n} is {v})", ", {n}: {v}", "having the {n} {v}", "having a {n} of {v}",
    "assuming the {n} is {v}", "assuming a {n} of {v}", "choosing {v} as the {n}", "choosing {v} for the {n}", "setting the {n} to {v}", "{v} being the {n}", "{n} {v}",
    "that has {v} as the {n}", "that has the {n} {v}",
)  # fmt: skip
# several values in one breath: their names, the values in the same order, or each beside its name
JOINT = (
    "given {ns} as {vs}", "with {ns} of {vs}", "with {ns} of {vs}, respectively", "given {eqs}", "with {eqs}", "where {eqs}", "({eqs})", "; {cols}", "if {are}",
    "where {are}", "using {vs} as {ns}", "with {vs} for {ns}, in that order", ", {ns} being {vs}", "when {are}", ", say {eqs}", "given that {are}",
    "using {eqs}", "for {cols}", "with the values {cols}", "having {ns} of {vs}", "whose {ns} are {vs}", "at {eqs}", "taking {vs} for {ns}",
    "knowing that {are}", ", as {are}", "provided that {are}",
    "with {eqs}, please", "given that {eqs}", "for {eqs}", "if {eqs}", "when {eqs}", "assuming {eqs}", "assuming that {are}", "assuming {ns} of {vs}",
    "supposing that {are}", "considering that {are}", "seeing that {are}", "as {are}", "taking {eqs}", "setting {eqs}", "letting {eqs}", "knowing {eqs}",
    "based on {eqs}", "based on {ns} of {vs}", "based on {vs} for {ns}", "based on {cols}", "on the basis of {eqs}", "from {ns} of {vs}", "from {eqs}",
    "out of {ns} of {vs}", "having {eqs}", "having {vs} for {ns}", "having {vs} as {ns}", "with {vs} as {ns}", "with {vs} as {ns}, in this order",
    "with {vs} as {ns}, respectively", "with {ns} being {vs}", "with {ns} being {vs}, respectively", "with {ns} equal to {vs}", "with {ns} set to {vs}",
    "with {ns} at {vs}", "with the following: {cols}", "with these values: {cols}", "with {cols}", "given {cols}", "given these: {cols}", "given {vs} for {ns}",
    "given {vs} as {ns}", "given {ns} of {vs}", "given {ns} as {vs}, respectively", "given {ns} as {vs}, in that order", "using {ns} of {vs}", "using {vs} for {ns}",
    "using {vs} as {ns}, respectively", "using {cols}", "using these values: {cols}", "taking {vs} as {ns}", "taking {vs} for {ns}, in that order",
    "taking {ns} as {vs}", "where {ns} are {vs}", "where {ns} are {vs}, respectively", "where {vs} are {ns}", "where {vs} are {ns}, in that order", "for {ns} of {vs}",
    "for {ns} of {vs}, respectively", "for {ns} equal to {vs}", "; {eqs}", "; {are}", "; here {are}", "; input: {cols}", ", {eqs}", ", {cols}", ", where {are}",
    ", where {eqs}", ", with {eqs}", ", knowing that {are}", ", if {are}", ", given that {are}", ", {ns} = {vs}", ", {vs} being {ns}", ", {vs} for {ns}",
    ", assuming {are}", "({cols})", "({are})", "(given {eqs})", "(where {are})", "(with {eqs})", "(using {eqs})", "(values: {cols})",
    "whose {ns} are {vs}, respectively", "as long as {are}", "provided {eqs}", "in the case that {are}", "in case {are}", "under the assumption that {are}",
    "in which {are}", "in which {eqs}", "such that {are}", "such that {eqs}",
)  # fmt: skip

LATER = (
    "The {n} should be {v}.", "Use {v} as the {n}.", "Please use {v} for the {n}.", "Take {v} for the {n}.", "For the {n}, use {v}.",
    "By the way, the {n} is {v}.", "I want {v} as the {n}.", "Set the {n} to {v}.", "Make it {v} for the {n}.", "{v} is the {n}.", "Let the {n} be {v}.",
    "I think {v} is right for the {n}.", "With {v} for the {n}, please.", "Keep in mind that the {n} is {v}.", "And the {n}? {v}.", "Put {v} for the {n}.",
    "Enter {v} as the {n}.", "I forgot: the {n} is {v}.", "As the {n} I want {v}.", "I want {v} as {n}.", "Regarding the {n}: {v}.", "Choose {v} for the {n}.",
    "Choose {v} as {n}.", "My {n} is {v}, by the way.", "My {n}: {v}.", "Its {n} is {v}.", "It has {v} as its {n}.", "Note: the {n} is {v}.",
    "The {n} has to be {v}.", "The {n} needs to be {v}.", "And the {n} is {v}.", "Oh, the {n} is {v}.", "Please go with {v} for the {n}.",
    "Have the {n} be {v}.", "We take {v} as the {n}.", "We want the {n} to be {v}.", "{v} will do as the {n}.", "{v} as the {n}, please.",
    "I'd like the {n} to be {v}.", "Give {v} as the {n}.",
    "The {n} shall be {v}.", "The {n} will be {v}.", "The {n} in question is {v}.", "The {n} to use is {v}.", "The {n} would be {v}.", "The {n}, by the way, is {v}.",
    "The {n}, I forgot to say, is {v}.", "As for the {n}, take {v}.", "As the {n}, take {v}.", "For the {n}, take {v}.", "For the {n}, {v} is fine.",
    "For the {n}, go with {v}.", "For the {n} it should say {v}.", "Please have {v} as the {n}.", "Make the {n} {v}.", "Make sure the {n} is {v}.",
    "Have {v} as the {n}.", "Go for {v} as the {n}.", "Select {v} for the {n}.", "Fill in {v} for the {n}.", "Write {v} for the {n}.",
    "Bear in mind that the {n} is {v}.", "Also, the {n} is {v}.", "Oh, and use {v} for the {n}.", "And make it {v} for the {n}.", "And I want {v} as the {n}.",
    "And the {n} should be {v}.", "And {v} for the {n}.", "I need {v} as the {n}.", "I need {v} for the {n}.", "I prefer {v} for the {n}.", "I chose {v} as the {n}.",
    "I choose {v} for the {n}.", "I would like {v} for the {n}.", "I'd go for {v} as the {n}.", "I have {v} as the {n}.", "I was told that the {n} is {v}.",
    "We agreed on {v} as the {n}.", "We chose {v} for the {n}.", "{v} for the {n}, please.", "{v} is to be the {n}.", "Its {n} should be {v}.",
    "It should have {v} as its {n}.", "My choice for the {n} is {v}.", "My choice of {n} is {v}.", "One more thing: the {n} is {v}.",
    "Just so you know, the {n} is {v}.", "With that, the {n} is {v}.", "Here the {n} is {v}.", "In this case the {n} is {v}.",
)  # fmt: skip

# one value of a story, and one of many parts; in training also these
TOLD = (
    "The {n} was {v}.", "The {n} equals {v}.", "The {n} has to be {v}.", "The {n} must be {v}.", "The {n} I have is {v}.", "The {n}: {v}.", "{N} = {v}.", "{N} is {v}.", "{N} should be {v}.", "Let the {n} be {v}.",
    "We have {a} {n} of {v}.", "It has {a} {n} of {v}.", "My {n} is {v}.", "Its {n} is {v}.", "Use {v} as the {n}.", "Use {v} for the {n}.", "Take {v} for the {n}.", "As the {n}, use {v}.",
    "As the {n} take {v}.", "As for the {n}, it is {v}.", "For the {n} we have {v}.", "For the {n}, take {v}.", "I know the {n}: {v}.", "Assume {a} {n} of {v}.", "{v} is the {n}.", "Set the {n} at {v}.",
)  # fmt: skip
TOLD_OF_MANY = (
    "The {n}: {v}.", "{N} = {v}.", "My {n}: {v}.", "Use {v} as the {n}.", "Use {v} for the {n}.", "Take {v} for the {n}.", "As the {n}, use {v}.", "For the {n}, take {v}.", "For the {n} we have {v}.",
)  # fmt: skip
# before values that come first, in place of 'with'; in training also these
AHEAD = (
    "Having ", "Using ", "Taking ", "Supposing ", "Considering ", "Provided ", "Starting from ", "If I have ", "If we have ", "If you are given ", "When I have ", "Say we have ", "Suppose we have ", "Working with ",
)  # fmt: skip


def request(
    rng: random.Random, sketch: Sketch, slots: dict[str, Slot], given: dict[str, Spoken], split: Split
) -> str:
    plain = {k for k, v in given.items() if not v.whole}
    usable = [g for g in sketch.goals if set(slots_of(g)) <= plain]
    goal = pick(rng, usable or [sketch.topic], split)
    left = {k: v for k, v in given.items() if f"{{{k}}}" not in goal}
    goal = re.sub(r"\{(\w+)\}", lambda m: given[m.group(1)].text, goal)
    own = {s.key for s in sketch.slots if s.phrases} & plain
    if goal[0] != "." and left and own >= left.keys() and rng.random() < 0.08:
        return _story(rng, sketch, goal, slots, left, split, given)
    later = ""
    able = [k for k in left if k in own and left[k].value is not None and not isinstance(left[k].value, dict)]
    if able and rng.random() < 0.1:  # one value comes in a sentence of its own
        key = rng.choice(able)
        later = " " + pick(rng, LATER, split).format(n=words(key), v=left.pop(key).text)
    parts = _parts(rng, slots, left, split)
    if goal[0] == ".":
        text = _close(re.sub(r"([.?!]?)$", lambda m: f" {_flowing(parts)}{m.group()}", goal[1:], count=1))
        return stopped(text) + later
    if parts and rng.random() < 0.14:
        text = _led(rng, sketch, goal, parts, split, given)
    else:
        tail = _flowing(parts) if rng.random() < 0.85 else ", ".join(p.lstrip(",; ") for p in parts)
        text = _sentence(rng, sketch, _close(f"{goal} {tail}"), split, given)
    return text + later if not later or text[-1] in ".?!" else f"{text}.{later}"


def _close(text: str) -> str:
    text = re.sub(r" +([,;.?!])", r"\1", text.strip())
    return re.sub(r"\b(last|next|past|coming|upcoming) an? ", r"\1 ", text)


def _sentence(rng: random.Random, sketch: Sketch, body: str, split: Split, given: dict[str, Spoken]) -> str:
    if body.startswith("?"):
        return f"{body[1:]}?" if rng.random() < 0.93 else body[1:]
    kind = "!" if body.startswith("!") else sketch.opened
    text = pick(rng, OPENERS[kind], split).replace("{g}", body.lstrip("!"))
    if rng.random() < 0.06:  # as typed into a search box
        text = body.lstrip("!")
        if not any(text.startswith(s.text) for s in given.values()):  # whose article is its own
            text = text.removeprefix("the ")
    return capital(text) if rng.random() < 0.95 else text


def _parts(rng: random.Random, slots: dict[str, Slot], left: dict[str, Spoken], split: Split) -> list[str]:
    """A phrase for each value; one phrase may tell two."""
    out: list[str] = []
    told: set[str] = set()
    # never where a text tells the values of several calls
    counted = [k for k, s in left.items() if slots[k].kind in COUNTED and not s.whole and s.value is not None]
    if len(counted) > 1 and rng.random() < 0.14:
        out.append(_jointly(rng, {k: left[k].text for k in counted}, split))
        told |= set(counted)
    plain = {k for k, v in left.items() if not v.whole}
    for key, spoken in left.items():
        if key in told:
            continue
        slot, text = slots[key], spoken.text
        told.add(key)
        if spoken.whole:
            out.append(text)
            continue
        fitting = [p for p in slot.phrases if set(slots_of(p)) - {"v"} <= plain - told]
        together = [p for p in fitting if p.count("{") > 1]
        if not fitting or rng.random() < 0.08:
            phrase = pick(rng, NAMED, split).replace("{n}", words(key))
        elif together and rng.random() < 0.75:
            phrase = pick(rng, together, split)
        else:
            phrase = pick(rng, fitting, split)
        if "${v}" in phrase and not text[0].isdigit():
            text = str(spoken.value) if spoken.value is not None else text  # "$one"
        used = set(slots_of(phrase)) - {"v"}
        told |= used
        out.append(
            re.sub(r"\{(\w+)\}", lambda m: text if m.group(1) == "v" else left[m.group(1)].text, phrase)  # noqa: B023
        )
    if rng.random() < 0.35:
        rng.shuffle(out)
        out.sort(key=lambda part: part.startswith(("and ", ",")))  # these go on from what was said
    return out


COUNTED = ("int", "num", "usd", "pct", "span", "point", "geo")


def _jointly(rng: random.Random, given: dict[str, str], split: Split) -> str:
    """'given the base and the height as 6 and 10', 'with a = 3 and b = -11'."""
    form = pick(rng, JOINT, split)
    names = [rng.choice(["the ", "", "its "]) + words(k) for k in given]
    sign = rng.choice([" = ", "=", " = ", " is ", ": "] if form[0] == "(" else [" = ", "=", " = ", " is "])
    return form.format(
        ns=_both(names, rng),
        vs=_both(list(given.values()), rng),
        eqs=_both([f"{words(k)}{sign}{v}" for k, v in given.items()], rng),
        cols=", ".join(f"{words(k)}: {v}" for k, v in given.items()),
        are=_both([f"the {words(k)} is {v}" for k, v in given.items()], rng),
    )


def _both(items: Sequence[str], rng: random.Random) -> str:
    comma = ", and " if len(items) > 2 and rng.random() < 0.5 else " and "
    return series(items, comma)


def _flowing(parts: Sequence[str]) -> str:
    """Phrases as one runs into the next: 'with a mass of 2 kg and a height of 3 m in Oslo'."""
    text = ""
    last = ""
    for part in parts:
        first, _, rest = part.partition(" ")
        if first == last and rest and first in ("with", "for", "in", "of", "and", "using"):
            text += f" and {rest}"
        elif part.startswith((",", ";")):
            text += part
        else:
            text += f" {part}"
        last = first
    return text.strip()


def opening(text: str, given: dict[str, Spoken]) -> str:
    """Words at the head of a sentence: with a capital, unless a value stands there, which is copied as it is."""
    return (
        text
        if any(text.startswith(s.text) for s in given.values() if s.text)
        else text[:1].upper() + text[1:]
    )


def _led(
    rng: random.Random,
    sketch: Sketch,
    goal: str,
    parts: Sequence[str],
    split: Split,
    given: dict[str, Spoken],
) -> str:
    """What is given comes first: 'Given a mass of 2 kg, what is …?'"""
    ahead = _flowing(parts).lstrip(",; ")
    if re.match(r"with .*\d", ahead):
        ahead = choose(rng, ["With ", "Given ", "Assuming ", "For "], AHEAD, split) + ahead[5:]
    rest = uncapital(_sentence(rng, sketch, goal, split, given), [s.text for s in given.values()])
    return _close(f"{opening(ahead, given)}, {rest}")


def _story(
    rng: random.Random,
    sketch: Sketch,
    goal: str,
    slots: dict[str, Slot],
    left: dict[str, Spoken],
    split: Split,
    given: dict[str, Spoken],
) -> str:
    """The values in sentences of their own."""
    told = []
    for key, spoken in left.items():
        phrase = next((p for p in slots[key].phrases if p.count("{") == 1), "")
        unit = phrase.partition("{v}")[2]
        if len(unit) > 16 or key in unit or re.search("[\"'?]", unit):
            unit = ""
        form = choose(
            rng,
            [
                "The {n} is {v}.",
                "The {n} is {v}.",
                "The {n} should be {v}.",
                "{N}: {v}.",
                "I have {a} {n} of {v}.",
                "Take {v} as the {n}.",
            ],
            TOLD,
            split,
        )
        name = words(key)
        if isinstance(spoken.value, list):
            form = choose(rng, ["{N}: {v}.", "Take {v} as the {n}."], TOLD_OF_MANY, split)
        a = "an" if name[0] in "aeiou" else "a"
        told.append(form.format(n=name, N=name.capitalize(), v=f"{spoken.text}{unit}", a=a))
    question = _sentence(rng, sketch, goal, split, given)
    story = pick(rng, STORIES, split)
    if "Now, " in story and not question.startswith("I"):
        question = question[0].lower() + question[1:]
    if story.startswith("{q}") and question[-1:] not in ".?!":
        question += "."
    return story.replace("{s}", " ".join(told)).replace("{q}", question)
