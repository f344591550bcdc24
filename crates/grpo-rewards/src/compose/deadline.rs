//! Bounds on time, and groups spread over threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use grpo_core::{BoxError, Completion, Error, Reward, RewardFn};
use rayon::prelude::*;

/// An error where `inner` takes longer than a limit for one completion.
///
/// A thread cannot be killed: one that is late goes on in the background, and its result is dropped. Once `most_late` of them do, further calls
/// fail at once, so that a function that hangs cannot fill the machine. The rules of this crate are bounded and need none of this; functions
/// that call out (a process, an endpoint) should have limits of their own.
///
/// ```
/// use std::time::Duration;
/// use grpo_core::from_fn;
/// use grpo_rewards::compose::Deadline;
/// let bounded = Deadline::new(from_fn("slow", |_: &String, _| Ok(1.0.into())), Duration::from_millis(200), 4)?;
/// # Ok::<(), grpo_core::Error>(())
/// ```
pub struct Deadline<R> {
    inner: Arc<R>,
    limit: Duration,
    most_late: usize,
    late: Arc<AtomicUsize>,
}

impl<R> Deadline<R> {
    /// With a limit for each completion, and the most threads that may be late at once.
    ///
    /// # Errors
    /// A limit of zero, or no thread.
    pub fn new(inner: R, limit: Duration, most_late: usize) -> Result<Self, Error> {
        if limit.is_zero() || most_late == 0 {
            return Err(Error::config("deadline", format!("{limit:?}, {most_late} late threads"), "above 0, with at least 1 thread"));
        }
        Ok(Self { inner: Arc::new(inner), limit, most_late, late: Arc::default() })
    }

    /// How many threads are late now.
    pub fn late(&self) -> usize {
        self.late.load(Ordering::Relaxed)
    }
}

impl<T: Clone + Send + Sync + 'static, R: RewardFn<T> + 'static> RewardFn<T> for Deadline<R> {
    fn name(&self) -> &str {
        RewardFn::<T>::name(&*self.inner)
    }
    fn score(&self, task: &T, completion: &Completion) -> Result<Reward, BoxError> {
        if self.late() >= self.most_late {
            return Err(format!("{} calls are still running past their limit of {:?}", self.late(), self.limit).into());
        }
        let (send, receive) = channel();
        let (inner, task, completion) = (Arc::clone(&self.inner), task.clone(), completion.clone());
        let call = Arc::new(Call { state: AtomicUsize::new(RUNNING), late: Arc::clone(&self.late) });
        let ended = Ended(Arc::clone(&call));
        let work = move || {
            let ended = ended;
            let result = inner.score(&task, &completion);
            drop(ended);
            // Nobody listens any more if it is late.
            let _ = send.send(result);
        };
        std::thread::Builder::new().name("reward".to_owned()).spawn(work)?;
        match receive.recv_timeout(self.limit) {
            Ok(result) => result,
            Err(RecvTimeoutError::Timeout) => {
                call.move_to(LATE);
                Err(format!("took longer than {:?}", self.limit).into())
            }
            Err(RecvTimeoutError::Disconnected) => Err("panicked".into()),
        }
    }
}

const RUNNING: usize = 0;
const ENDED: usize = 1;
const LATE: usize = 2;

/// One call: whichever of its end and its limit comes first decides whether it counts as late.
struct Call {
    state: AtomicUsize,
    late: Arc<AtomicUsize>,
}

impl Call {
    fn move_to(&self, state: usize) {
        match (self.state.swap(state, Ordering::AcqRel), state) {
            (RUNNING, LATE) => {
                self.late.fetch_add(1, Ordering::Relaxed);
            }
            (LATE, ENDED) => {
                self.late.fetch_sub(1, Ordering::Relaxed);
            }
            _ => {}
        }
    }
}

/// Tells a call that its thread is done, by a return or by a panic.
struct Ended(Arc<Call>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.move_to(ENDED);
    }
}

/// Judges the completions of a group on several threads: for functions that take long for each.
///
/// The order stays. The inner function's `score_group` is not used: it is for functions that look at completions one by one.
#[derive(Debug, Clone)]
pub struct Parallel<R> {
    inner: R,
}

impl<R> Parallel<R> {
    /// On rayon's threads.
    pub fn new(inner: R) -> Self {
        Self { inner }
    }
}

impl<T: Sync + ?Sized, R: RewardFn<T>> RewardFn<T> for Parallel<R> {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn score(&self, task: &T, completion: &Completion) -> Result<Reward, BoxError> {
        self.inner.score(task, completion)
    }
    fn score_group(&self, task: &T, group: &[Completion]) -> Result<Vec<Reward>, BoxError> {
        group.par_iter().map(|completion| self.inner.score(task, completion)).collect()
    }
}
