//! Against the shared reward cases.
