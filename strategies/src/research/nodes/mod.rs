//! One file per node, in the order in which a thread visits them.

mod confirm_queries;
mod equip;
mod execute_tools;
mod finalize_answer;
mod planning_agent;
mod receive_approval;
mod reflect;
mod web_research;

pub(super) use self::{
    confirm_queries::ConfirmQueries,
    equip::Equip,
    execute_tools::ExecuteTools,
    finalize_answer::{FinalizeAnswer, spoken_of},
    planning_agent::{PlanningAgent, SUBMIT_PLAN},
    receive_approval::ReceiveApproval,
    reflect::Reflect,
    web_research::WebResearch,
};
