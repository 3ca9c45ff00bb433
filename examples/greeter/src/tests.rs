//! Runs the fixtures of the greeter.

use super::Greeter;

turnfold::strategy::tests!(&[&Greeter], "fixtures");
