//! Checks the library's rewards against a folder of cases: `check-rewards DIR [--tier must|should|policy] [--verbose]`.
#![allow(clippy::print_stdout)]

mod case;
mod run;
mod score;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use case::Tier;
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

fn checked() -> std::result::Result<bool, String> {
    let mut arguments = std::env::args().skip(1);
    let (mut folder, mut tier, mut verbose) = (None, None, false);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--tier" => tier = Some(Tier::named(&arguments.next().unwrap_or_default())?),
            "--verbose" => verbose = true,
            _ if folder.is_none() => folder = Some(argument),
            other => return Err(format!("unknown argument `{other}`; usage: check-rewards DIR [--tier must|should|policy] [--verbose]")),
        }
    }
    let folder = folder.ok_or("no folder given; usage: check-rewards DIR [--tier must|should|policy] [--verbose]")?;
    let cases = case::read(&folder)?;
    let mut table: BTreeMap<(String, Tier), Row> = BTreeMap::new();
    let (mut slowest, mut false_positives) = ((Duration::ZERO, String::new()), Vec::new());
    for case in cases.iter().filter(|c| tier.is_none_or(|t| t == c.tier)) {
        let start = Instant::now();
        let result = run(case);
        let taken = start.elapsed();
        if taken > slowest.0 {
            slowest = (taken, case.id.clone());
        }
        let row = table.entry((case.family.clone(), case.tier)).or_default();
        let late = case.limit.is_some_and(|limit| taken > limit);
        match result {
            Result::Skipped(why) => row.skipped.push(format!("{} ({why})", case.id)),
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
