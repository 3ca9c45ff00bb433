//! One file per node, in the order in which a thread visits them.

mod advance;
mod assess;
mod call_tools;
mod equip;
mod orchestrate;
mod plan;
mod respond;

pub(super) use self::plan::in_force;
pub(in crate::strategies) use self::{
    advance::Advance, assess::Assess, call_tools::CallTools, equip::Equip, orchestrate::Orchestrate,
    plan::Plan, respond::Respond,
};
