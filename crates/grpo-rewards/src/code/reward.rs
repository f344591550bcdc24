//! The reward of a program that a completion holds.

use std::path::Path;

use grpo_core::{BoxError, Completion, Reward, RewardFn};

use super::run::{Ended, Program, Run, Sandbox, SandboxError};
use crate::answer::{Extract, Thoughts, same_output};
use crate::format::fenced;

/// One thing that a program must do.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Check {
    /// Given this on standard input, it writes that to standard output: compared by [`same_output`], exit code 0.
    Output {
        /// Standard input.
        input: String,
        /// What it must write.
        expected: String,
    },
    /// These lines, run after it in one process, end without an error: assertions. The program could look at them; see the module's words on that.
    Script(String),
}

/// The task of a code reward: checks that a program must pass.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct CodeTask {
    /// The checks; with none the reward does not apply.
    pub checks: Vec<Check>,
}

/// What part of the checks counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Credit {
    /// 1 if all pass, else 0. Checks after the first that fails are not run.
    #[default]
    AllOrNothing,
    /// The share that passes.
    Share,
}

/// A language: how its code blocks are marked, and what runs them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Language {
    /// The word after the fence.
    pub fence: String,
    /// The name of the file that the code is put in.
    pub file: String,
    /// The absolute path of the interpreter, and its arguments; the file's name is among them.
    pub command: Vec<String>,
    /// What ends a script: `{token}` is replaced by a word that shows that the end was reached.
    pub epilogue: String,
}

impl Language {
    /// Python 3, from `/usr/bin` or `/usr/local/bin`: other users must be able to run it.
    ///
    /// # Errors
    /// None found there.
    pub fn python() -> Result<Self, SandboxError> {
        let found = ["/usr/bin/python3", "/usr/local/bin/python3"].into_iter().find(|path| Path::new(path).exists());
        let interpreter = found.ok_or_else(|| SandboxError::Failed("no python3 in /usr/bin or /usr/local/bin".to_owned()))?;
        Ok(Self {
            fence: "python".to_owned(),
            file: "main.py".to_owned(),
            // Isolated: no user site, no variables; no files of bytecode.
            command: [interpreter, "-I", "-B", "main.py"].map(str::to_owned).to_vec(),
            epilogue: "\nprint(\"{token}\", flush=True)\n".to_owned(),
        })
    }
}

/// Runs the completion's last code block against the task's checks.
///
/// The block is looked for in the last `<answer>` tag, else in the text after the thoughts. No block earns 0; a sandbox that fails is an error,
/// never a 0; whatever the program does is its own doing, and at worst a 0.
#[derive(Debug, Clone)]
pub struct CodeReward {
    sandbox: Sandbox,
    language: Language,
    credit: Credit,
    tolerance: f64,
    thoughts: Thoughts,
}

impl CodeReward {
    /// In this sandbox, for this language; all or nothing; numbers in outputs within 1e-6.
    pub fn new(sandbox: Sandbox, language: Language) -> Self {
        Self { sandbox, language, credit: Credit::AllOrNothing, tolerance: 1e-6, thoughts: Thoughts::default() }
    }

    /// Sets what part of the checks counts.
    pub fn credit(mut self, credit: Credit) -> Self {
        self.credit = credit;
        self
    }

    /// Sets how far numbers in outputs may be off.
    ///
    /// # Errors
    /// A tolerance that is negative or not finite.
    pub fn tolerance(mut self, tolerance: f64) -> Result<Self, grpo_core::Error> {
        if !tolerance.is_finite() || tolerance < 0.0 {
            return Err(grpo_core::Error::config("output tolerance", tolerance, "finite and at least 0"));
        }
        self.tolerance = tolerance;
        Ok(self)
    }

    /// Sets the tags that thoughts stand between.
    pub fn thoughts(mut self, thoughts: Thoughts) -> Self {
        self.thoughts = thoughts;
        self
    }

    /// The code in a text.
    pub fn code<'t>(&self, text: &'t str) -> Option<&'t str> {
        let rest = self.thoughts.cut(text)?;
        fenced(Extract::tag("answer").from(rest).unwrap_or(rest), &self.language.fence)
    }

    /// Runs one check: whether it passed, and what the program did.
    ///
    /// # Errors
    /// The sandbox failed.
    pub fn check(&self, code: &str, check: &Check) -> Result<(bool, Run), SandboxError> {
        let token = format!("end-{:016x}", std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), code));
        let (source, input) = match check {
            Check::Output { input, .. } => (code.to_owned(), input.clone()),
            Check::Script(script) => (format!("{code}\n{script}\n{}", self.language.epilogue.replace("{token}", &token)), String::new()),
        };
        let run = self.sandbox.run(&Program {
            files: vec![(self.language.file.clone(), source)],
            command: self.language.command.clone(),
            input,
        })?;
        let passed = run.ended == Ended::Exit(0)
            && match check {
                Check::Output { expected, .. } => same_output(expected, &run.output, self.tolerance),
                // An early exit(0) does not get there.
                Check::Script(_) => run.output.trim_end().ends_with(&token),
            };
        Ok((passed, run))
    }

    /// The reward of a text.
    ///
    /// # Errors
    /// The sandbox failed.
    pub fn judge(&self, task: &CodeTask, text: &str) -> Result<Reward, SandboxError> {
        if task.checks.is_empty() {
            return Ok(Reward::NotApplicable);
        }
        let Some(code) = self.code(text) else { return Ok(Reward::Outcome(0.0)) };
        let mut passed = 0_usize;
        for check in &task.checks {
            if self.check(code, check)?.0 {
                passed += 1;
            } else if self.credit == Credit::AllOrNothing {
                return Ok(Reward::Outcome(0.0));
            }
        }
        Ok(Reward::Outcome(passed as f64 / task.checks.len() as f64))
    }
}

impl RewardFn<CodeTask> for CodeReward {
    fn name(&self) -> &str {
        "code"
    }
    fn score(&self, task: &CodeTask, completion: &Completion) -> Result<Reward, BoxError> {
        Ok(self.judge(task, &completion.text)?)
    }
}
