//! Runs the fixtures of the greeter.

use super::Greeter;

strategy_tests::tests!(&[&Greeter], "fixtures");
