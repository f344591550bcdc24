//! Asking a run to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that asks a run to finish its step, save and end. Clones are the same flag: give one to the trainer and one to whoever
/// listens for Ctrl-C.
#[derive(Debug, Clone, Default)]
pub struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// A flag that asks for nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks. Safe to call from a signal handler: it only stores a value.
    pub fn stop(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Whether it was asked.
    pub fn is_stopped(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}
