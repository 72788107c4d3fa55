//! Who doubts: real processes, load, the sample service and the end-to-end tests.
