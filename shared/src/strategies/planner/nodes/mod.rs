//! One file per node, in the order in which a thread visits them.

mod advance;
mod assess;
mod call_tools;
mod equip;
mod orchestrate;
mod plan;
mod receive_answer;
mod respond;
mod side_by_side;

pub(super) use self::plan::list;
pub(in crate::strategies) use self::{
    advance::Advance, assess::Assess, call_tools::CallTools, equip::Equip, orchestrate::Orchestrate,
    plan::Plan, receive_answer::ReceiveAnswer, respond::Respond,
};
