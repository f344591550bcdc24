//! Hand-made groups.
