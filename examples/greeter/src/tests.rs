//! The greeter, held to its fixtures.

use super::Greeter;

harness::tests!(&[&Greeter], "fixtures");
