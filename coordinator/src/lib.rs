//! Who decides and acts: the tidegate daemon and the operator's commands.
