//! The reports as JUnit XML, for CI systems.

use quick_junit::{NonSuccessKind, Report as Junit, SerializeError, TestCase, TestCaseStatus, TestSuite};
use store::ThreadId;

use super::{JudgedSummary, Limit, Report, RunReport};

/// Suite of a replay with changes.
const REPLAY: &str = "what if";

/// Suite of the limits of a run.
const LIMITS: &str = "limits";

/// Suite of the rulings of a judge.
const JUDGE: &str = "judge";

/// Suite of the threads that are not judged.
const NOT_JUDGED: &str = "not judged";

/// Suite of the threads that are not decided.
const NOT_DECIDED: &str = "not decided";

/// Builds a failing case for each place at which threads would go differently, a passing one for all others if there are any, and a skipped one for
/// each thread that is not decided. Names hold no counts, so that a CI system recognizes the cases in the next run.
///
/// # Errors
///
/// The report cannot be written as XML.
pub fn replay_junit(report: &Report) -> Result<String, SerializeError> {
    let mut junit = Junit::new("turnfold whatif");
    let mut suite = TestSuite::new(REPLAY);
    for cluster in &report.clusters {
        let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
        status.set_type(cluster.effect.words()).set_message(cluster.words());
        suite.add_test_case(case(REPLAY, cluster.place(), status));
    }
    let mut status = TestCaseStatus::success();
    if report.same == 0 {
        status = TestCaseStatus::skipped();
        status.set_message(if report.threads == 0 {
            "no thread matches"
        } else {
            "no thread would go as it went"
        });
    }
    let mut same = case(REPLAY, "as recorded".to_owned(), status);
    same.set_system_out(format!("{} of {} threads would go as they went", report.same, report.threads));
    suite.add_test_case(same);
    junit.add_test_suite(suite);
    let threads = report.not_decided.iter().map(|thread| (thread.thread, thread.why.as_str()));
    junit.add_test_suite(skipped(NOT_DECIDED, threads));
    junit.to_string()
}

/// Builds a case for each limit, which fails if the run exceeds it, and a skipped case for each thread that is not decided. With a
/// judge, each first difference is a case with its rulings, skipped if the judge is biased. Names hold no counts, so that a CI
/// system recognizes the cases in the next run.
///
/// # Errors
///
/// The report cannot be written as XML.
pub fn junit(report: &RunReport, limits: &[Limit]) -> Result<String, SerializeError> {
    let mut junit = Junit::new("turnfold whatif run");
    let mut suite = TestSuite::new(LIMITS);
    for limit in limits {
        let status = match limit.exceeded(&report.total) {
            None => TestCaseStatus::success(),
            Some(why) => {
                let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
                status.set_type("exceeded").set_message(why);
                status
            }
        };
        suite.add_test_case(case(LIMITS, limit.to_string(), status));
    }
    junit.add_test_suite(suite);
    let threads = report.threads.iter();
    let undecided =
        threads.clone().filter_map(|compared| Some((compared.thread, compared.not_decided.as_deref()?)));
    junit.add_test_suite(skipped(NOT_DECIDED, undecided));
    if report.judge.is_some() {
        junit.add_test_suite(rulings(report));
        let not_judged = threads
            .filter_map(|compared| Some((compared.thread, compared.judged.as_ref()?.not_judged.as_deref()?)));
        junit.add_test_suite(skipped(NOT_JUDGED, not_judged));
    }
    junit.to_string()
}

/// The rulings of the judge by first difference, and on all threads.
fn rulings(report: &RunReport) -> TestSuite {
    let mut suite = TestSuite::new(JUDGE);
    let places = report.clusters.iter().map(|cluster| (cluster.place.clone(), &cluster.summary));
    for (place, summary) in places.chain([("all".to_owned(), &report.total)]) {
        let judged = summary.judged.unwrap_or_default();
        let mut status = TestCaseStatus::success();
        if let Some(bias) = judged.bias() {
            status = TestCaseStatus::skipped();
            status.set_message(bias);
        }
        let mut case = case(JUDGE, place, status);
        let JudgedSummary { better, worse, tie, inconsistent, not_judged, .. } = judged;
        case.set_system_out(format!(
            "{better} better, {worse} worse, {tie} tie, {inconsistent} inconsistent, {not_judged} not judged"
        ));
        suite.add_test_case(case);
    }
    suite
}

fn skipped<'a>(class: &str, threads: impl Iterator<Item = (ThreadId, &'a str)>) -> TestSuite {
    let mut suite = TestSuite::new(class);
    for (thread, why) in threads {
        let mut status = TestCaseStatus::skipped();
        status.set_message(why);
        suite.add_test_case(case(class, thread.to_string(), status));
    }
    suite
}

fn case(class: &str, name: String, status: TestCaseStatus) -> TestCase {
    let mut case = TestCase::new(name, status);
    case.set_classname(class);
    case
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::whatif::replay_sarif;

    #[test]
    fn nothing_checked_is_no_success() {
        let is_whole = |report: &Report| {
            let sarif = replay_sarif(report, "0.1.0");
            sarif.pointer("/runs/0/invocations/0/executionSuccessful").unwrap().as_bool().unwrap()
        };
        let none = Report::default();
        assert!(replay_junit(&none).unwrap().contains("<skipped message=\"no thread matches\""));
        assert!(!is_whole(&none));
        let undecided = Report { threads: 1, undecided: 1, ..Report::default() };
        assert!(replay_junit(&undecided).unwrap().contains("<skipped message=\"no thread would go"));
        assert!(!is_whole(&undecided));
        let same = Report { threads: 1, same: 1, ..Report::default() };
        assert!(!replay_junit(&same).unwrap().contains("<skipped") && is_whole(&same));
    }
}
