//! One file per node, in the order in which a thread visits them.

mod assess_failure;
mod confirm_plan;
mod equip;
mod gather_facts;
mod next_payload;
mod receive_answer;
mod receive_approval;
mod receive_failure_choice;
mod report;
mod run_command;

pub(super) use self::{
    assess_failure::AssessFailure, confirm_plan::ConfirmPlan, equip::Equip, gather_facts::GatherFacts,
    next_payload::NextPayload, receive_answer::ReceiveAnswer, receive_approval::ReceiveApproval,
    receive_failure_choice::ReceiveFailureChoice, report::Report, run_command::RunCommand,
};
