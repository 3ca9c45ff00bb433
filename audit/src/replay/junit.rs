//! The report as JUnit XML, for CI systems.

use quick_junit::{NonSuccessKind, Report as Junit, TestCase, TestCaseStatus, TestSuite};

use super::Report;

/// Name of the case of all threads without a divergence.
const AS_RECORDED: &str = "as recorded";

/// Suite of threads whose hash chain is broken, and type of their failures.
const BROKEN: &str = "broken chain";

/// Suite of threads that were not checked, and type of their errors.
const NOT_CHECKED: &str = "not checked";

/// Builds one suite per strategy, with a passing case for all threads without a divergence and a failing case for
/// each cluster. Broken hash chains are failures in a suite of their own, and threads that were not checked errors in another.
///
/// # Errors
///
/// The report cannot be written as XML.
pub fn junit(report: &Report) -> Result<String, quick_junit::SerializeError> {
    let mut junit = Junit::new("turnfold audit replay");
    for (strategy, share) in &report.strategies {
        let mut suite = TestSuite::new(strategy.as_str());
        let clusters = report.clusters.iter().filter(|cluster| cluster.strategy == *strategy);
        for cluster in clusters {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
            status.set_type("diverged");
            status.set_message(format!("{} threads; as {}", cluster.threads, cluster.words()));
            suite.add_test_case(case(strategy, format!("{}/{}", cluster.node, cluster.field), status));
        }
        let mut same = case(strategy, AS_RECORDED, TestCaseStatus::success());
        same.set_system_out(format!("{} of {} threads go as they went", share.same, share.threads));
        suite.add_test_case(same);
        junit.add_test_suite(suite);
    }
    if 0 < report.broken {
        let mut suite = TestSuite::new(BROKEN);
        for chain in &report.broken_chains {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
            status.set_type(BROKEN);
            status.set_message(format!("event {}: {}", chain.seq, chain.what));
            suite.add_test_case(case(BROKEN, chain.thread.to_string(), status));
        }
        junit.add_test_suite(suite);
    }
    if 0 < report.unchecked {
        let mut suite = TestSuite::new(NOT_CHECKED);
        for thread in &report.not_checked {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
            status.set_type(NOT_CHECKED);
            status.set_message(thread.why.as_str());
            suite.add_test_case(case(NOT_CHECKED, thread.thread.to_string(), status));
        }
        junit.add_test_suite(suite);
    }
    junit.to_string()
}

/// Creates a case. Its name and class hold no counts, so that a CI system recognizes it in the next run.
fn case(class: &str, name: impl Into<quick_junit::XmlString>, status: TestCaseStatus) -> TestCase {
    let mut case = TestCase::new(name, status);
    case.set_classname(class);
    case
}
