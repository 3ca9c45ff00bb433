//! Messages that count as the person's own in a turn.

use shared::{Message, Role, Thread};
use strategies::probe::Probe;

#[test]
fn only_messages_of_the_turn_count() {
    let messages = vec![Message::user("yes"), Message::assistant("Shall I?")];
    let mut thread = Thread::<Probe> { messages, ..Thread::default() };
    thread.turn.from = thread.messages.len();
    assert_eq!((thread.user_message(), thread.last_user_message()), ("", "yes"), "nobody has answered yet");
    thread.messages.push(Message { role: Role::System, ..Message::user("yes") });
    thread.messages.push(Message::assistant("yes"));
    assert_eq!(thread.user_message(), "", "nobody has answered yet");
    thread.messages.extend([Message::user("no"), Message::assistant("As you like.")]);
    assert_eq!((thread.user_message(), thread.last_user_message()), ("no", "no"));
}
