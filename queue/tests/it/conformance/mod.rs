//! Checks that every implementation must pass, one test per check and implementation.
//!
//! A check is an async function that takes a `&Backend`. [`checks!`] turns each into a test in memory and a test over a Redis
//! server of its own.

mod availability;
mod notifications;
mod queue;
mod rate_limits;

/// Defines the tests `memory::CHECK` and `real_redis::CHECK` for each check of the enclosing module's parent.
macro_rules! checks {
    ($($check:ident),+ $(,)?) => {
        mod memory {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $check() {
                super::$check(&super::Backend::memory()).await;
            })+
        }

        mod real_redis {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $check() {
                let backend = super::Backend::redis();
                super::$check(&backend).await;
                backend.assert_clean().await;
            })+
        }
    };
}

pub(crate) use checks;
