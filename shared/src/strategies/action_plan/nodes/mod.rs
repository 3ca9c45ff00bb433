//! One file a node, in the order a thread meets them.

mod confirm_plan;
mod equip;
mod gather_facts;
mod hear_approval;
mod hear_failure;
mod next_payload;
mod report;
mod run_command;
mod weigh_failure;

pub(super) use self::{
    confirm_plan::ConfirmPlan, equip::Equip, gather_facts::GatherFacts, hear_approval::HearApproval,
    hear_failure::HearFailure, next_payload::NextPayload, report::Report, run_command::RunCommand,
    weigh_failure::WeighFailure,
};
