//! What may happen next: pure decisions over an observed fleet.
