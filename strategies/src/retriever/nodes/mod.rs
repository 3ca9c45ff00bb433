//! One file per node, in the order in which a thread visits them.

mod call_tools;
mod choose;
mod equip;
mod orchestrate;
mod receive_answer;
mod respond;
mod retrieve;
mod route;
mod routing_query;

pub(super) use self::{
    call_tools::CallTools,
    choose::Choose,
    equip::Equip,
    orchestrate::Orchestrate,
    receive_answer::ReceiveAnswer,
    respond::{Respond, tried},
    retrieve::Retrieve,
    route::Route,
    routing_query::RoutingQuery,
};
