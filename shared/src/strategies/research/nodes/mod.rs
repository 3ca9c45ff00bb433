//! One file a node, in the order a thread meets them.

mod confirm_queries;
mod equip;
mod execute_tools;
mod finalize_answer;
mod hear_approval;
mod planning_agent;
mod reflect;
mod web_research;

pub(super) use self::{
    confirm_queries::ConfirmQueries,
    equip::Equip,
    execute_tools::ExecuteTools,
    finalize_answer::{FinalizeAnswer, spoken_of},
    hear_approval::HearApproval,
    planning_agent::{PlanningAgent, SUBMIT_PLAN},
    reflect::Reflect,
    web_research::WebResearch,
};
