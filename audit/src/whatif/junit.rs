//! The report of a run as JUnit XML, for CI systems.

use quick_junit::{NonSuccessKind, Report as Junit, SerializeError, TestCase, TestCaseStatus, TestSuite};

use super::{Limit, RunReport};

/// Suite of the limits of a run.
const LIMITS: &str = "limits";

/// Suite of the threads that are not decided.
const NOT_DECIDED: &str = "not decided";

/// Builds a case for each limit, which fails if the run exceeds it, and a skipped case for each thread that is not decided. Names
/// hold no counts, so that a CI system recognizes the cases in the next run.
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
    let mut suite = TestSuite::new(NOT_DECIDED);
    for compared in &report.threads {
        let Some(why) = &compared.not_decided else { continue };
        let mut status = TestCaseStatus::skipped();
        status.set_message(why.as_str());
        suite.add_test_case(case(NOT_DECIDED, compared.thread.to_string(), status));
    }
    junit.add_test_suite(suite);
    junit.to_string()
}

fn case(class: &str, name: String, status: TestCaseStatus) -> TestCase {
    let mut case = TestCase::new(name, status);
    case.set_classname(class);
    case
}
