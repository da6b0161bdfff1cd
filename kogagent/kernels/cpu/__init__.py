"""The CPU program: C++ sources, the library built from them, its C interface. Knows shapes, no tensors."""
