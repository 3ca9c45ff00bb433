//! The nodes of the chat.

mod call_tools;
mod equip;
mod reply;

pub(super) use call_tools::CallTools;
pub(super) use equip::Equip;
pub(super) use reply::Reply;
