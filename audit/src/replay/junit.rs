//! The report as JUnit XML, for CI systems.

use quick_junit::{NonSuccessKind, Report as Junit, TestCase, TestCaseStatus, TestSuite};

use super::Report;

/// Builds one suite per strategy, with a passing case for all threads without a divergence and a failing case for
/// each cluster. Threads that were not checked are an error in a suite of their own.
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
            suite.add_test_case(TestCase::new(format!("{}/{}", cluster.node, cluster.field), status));
        }
        let same = format!("{} of {} threads go as they went", share.same, share.threads);
        suite.add_test_case(TestCase::new(same, TestCaseStatus::success()));
        junit.add_test_suite(suite);
    }
    if 0 < report.unchecked {
        let mut suite = TestSuite::new("not checked");
        for thread in &report.not_checked {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
            status.set_type("not checked");
            status.set_message(thread.why.as_str());
            suite.add_test_case(TestCase::new(thread.thread.to_string(), status));
        }
        junit.add_test_suite(suite);
    }
    junit.to_string()
}
