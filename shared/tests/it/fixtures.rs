//! Runs every strategy against its fixtures.

use shared::{Event, Graph};

strategy_tests::tests!(&strategies::all(), "../fixtures");

pub(crate) fn each_fixture(mut check: impl FnMut(&'static dyn Graph, &str, Vec<Event>)) {
    for suite in suites() {
        for fixture in suite.fixtures {
            check(suite.graph, &fixture.name, fixture.script);
        }
    }
}
