//! Checks the library's rewards against a folder of cases: `check-rewards DIR [--tier must|should|policy] [--threads N] [--verbose]`.
#![allow(clippy::print_stdout)]

mod case;
mod run;
mod score;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use case::{Case, Tier};
use run::{Result, run};

fn main() -> ExitCode {
    match checked() {
        Ok(passed) => {
            if passed {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
        Err(message) => {
            eprintln!("check-rewards: {message}");
            ExitCode::from(2)
        }
    }
}

#[derive(Default)]
struct Row {
    passed: usize,
    failed: Vec<String>,
    skipped: Vec<String>,
}

const USAGE: &str = "usage: check-rewards DIR [--tier must|should|policy] [--threads N] [--verbose]";

struct Arguments {
    folder: String,
    tier: Option<Tier>,
    threads: usize,
    verbose: bool,
}

fn arguments() -> std::result::Result<Arguments, String> {
    let mut given = std::env::args().skip(1);
    let (mut folder, mut tier, mut threads, mut verbose) = (None, None, 1, false);
    while let Some(argument) = given.next() {
        let mut value = || given.next().unwrap_or_default();
        match argument.as_str() {
            "--tier" => tier = Some(Tier::named(&value())?),
            "--threads" => threads = value().parse().ok().filter(|n| (1..=64).contains(n)).ok_or("threads must be 1 to 64")?,
            "--verbose" => verbose = true,
            _ if folder.is_none() && !argument.starts_with('-') => folder = Some(argument),
            other => return Err(format!("unknown argument `{other}`; {USAGE}")),
        }
    }
    Ok(Arguments { folder: folder.ok_or(format!("no folder given; {USAGE}"))?, tier, threads, verbose })
}

/// Every case's result and how long it took, in order; case i runs on thread i mod n.
fn results(cases: &[&Case], threads: usize) -> Vec<(Result, Duration)> {
    let timed = |case: &Case| {
        let start = Instant::now();
        let result = run(case);
        (result, start.elapsed())
    };
    let mut all: Vec<Option<(Result, Duration)>> = cases.iter().map(|_| None).collect();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|worker| {
                scope.spawn(move || {
                    cases.iter().enumerate().skip(worker).step_by(threads).map(|(i, case)| (i, timed(case))).collect::<Vec<_>>()
                })
            })
            .collect();
        for (index, result) in workers.into_iter().filter_map(|w| w.join().ok()).flatten() {
            all[index] = Some(result);
        }
    });
    all.into_iter().map(|result| result.unwrap_or((Result::Panicked, Duration::ZERO))).collect()
}

fn checked() -> std::result::Result<bool, String> {
    let Arguments { folder, tier, threads, verbose } = arguments()?;
    let cases = case::read(&folder)?;
    let cases: Vec<&Case> = cases.iter().filter(|c| tier.is_none_or(|t| t == c.tier)).collect();
    let mut table: BTreeMap<(String, Tier), Row> = BTreeMap::new();
    let (mut slowest, mut false_positives) = ((Duration::ZERO, String::new()), Vec::new());
    for (case, (result, taken)) in cases.iter().zip(results(&cases, threads)) {
        if taken > slowest.0 {
            slowest = (taken, case.id.clone());
        }
        let row = table.entry((case.family.clone(), case.tier)).or_default();
        // Threads that share processors wait for each other.
        let late = case.limit.is_some_and(|limit| taken > limit * u32::try_from(threads).unwrap_or(1));
        match result {
            Result::Skipped(why) => row.skipped.push(format!("{} ({why})", case.id)),
            Result::Panicked => row.failed.push(format!("{} (panicked)", case.id)),
            Result::Is(found) if case.expects(&found) && !late => row.passed += 1,
            Result::Is(found) => {
                if case.expected == "not_equal" && found == "equal" {
                    false_positives.push(case.id.clone());
                }
                let late = if late { format!(", after {} ms", taken.as_millis()) } else { String::new() };
                let detail = if verbose { format!(": expected {}, found {found}{late}", case.expected) } else { String::new() };
                row.failed.push(format!("{}{detail}", case.id));
            }
        }
    }
    println!("{:<20} {:<7} {:>6} {:>6} {:>7}  ids that differ", "family", "tier", "passed", "failed", "skipped");
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    let mut tiers: BTreeMap<Tier, (usize, usize)> = BTreeMap::new();
    for ((family, tier), row) in &table {
        let separator = if verbose { "\n    " } else { " " };
        let ids = row.failed.iter().chain(&row.skipped).map(|id| format!("{separator}{id}")).collect::<String>();
        println!("{family:<20} {:<7} {:>6} {:>6} {:>7} {ids}", tier.name(), row.passed, row.failed.len(), row.skipped.len());
        passed += row.passed;
        failed += row.failed.len();
        skipped += row.skipped.len();
        let sum = tiers.entry(*tier).or_default();
        sum.0 += row.passed;
        sum.1 += row.passed + row.failed.len() + row.skipped.len();
    }
    println!();
    for (tier, (passed, all)) in tiers {
        println!("tier {:<7} {passed} of {all} ({:.1} %)", tier.name(), 100.0 * passed as f64 / all.max(1) as f64);
    }
    println!("answered equal where not_equal was expected: {} {}", false_positives.len(), false_positives.join(" "));
    println!("slowest: {:.3} ms, {}", slowest.0.as_secs_f64() * 1e3, slowest.1);
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    Ok(failed == 0 && passed > 0)
}
