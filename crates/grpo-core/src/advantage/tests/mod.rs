//! Hand-worked values and properties.
