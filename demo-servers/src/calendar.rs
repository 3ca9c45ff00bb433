//! The appointment book: one-hour appointments on named days.

use std::{ops::Range, path::PathBuf};

use rmcp::{
    ServerHandler,
    handler::server::wrapper::Parameters,
    model::{ErrorData, GetPromptResult, PromptMessage, Role},
    prompt, prompt_handler, prompt_router, tool, tool_handler, tool_router,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    ledger::{Key, Store},
    words::{Refusal, Said, items, key_of, name_of},
};

/// Hours at which an appointment may begin. The last one ends with the working day.
const WORKING_HOURS: Range<u8> = 9..17;

/// State of the calendar server.
#[derive(Debug, Clone)]
pub(crate) struct Calendar {
    store: Store<Book>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Book {
    /// Number of appointments ever booked. Ids are never reused.
    booked: u64,
    events: Vec<Event>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Event {
    id: String,
    day: String,
    hour: u8,
    title: String,
}

/// A day to look at.
#[derive(Debug, Deserialize, JsonSchema)]
struct Day {
    /// The day, as a name or a date: "Friday" or "2026-12-04". Name a day the same way each time.
    day: String,
}

/// A new appointment.
#[derive(Debug, Deserialize, JsonSchema)]
struct Booking {
    /// The day, as a name or a date: "Friday" or "2026-12-04". Name a day the same way each time.
    day: String,
    /// The hour at which it begins, from 9 to 16. It lasts one hour.
    #[schemars(range(min = 9, max = 16))]
    hour: u8,
    /// Subject of the appointment.
    title: String,
}

/// An appointment to cancel.
#[derive(Debug, Deserialize, JsonSchema)]
struct Cancellation {
    /// The id of the appointment, as returned by list_events and book.
    event_id: String,
}

#[tool_router]
impl Calendar {
    pub(crate) fn new(data: PathBuf) -> Self {
        Self { store: Store::new(data) }
    }

    /// Lists the appointments of a day with their ids.
    #[tool(annotations(
        read_only_hint = true,
        destructive_hint = false,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    async fn list_events(&self, Parameters(Day { day }): Parameters<Day>) -> Said {
        let day = day_of(&day)?;
        Ok(self.store.read().await?.appointments(&day))
    }

    /// Lists the free hours of a day, between 9 and 17.
    #[tool(annotations(
        read_only_hint = true,
        destructive_hint = false,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    async fn free_hours(&self, Parameters(Day { day }): Parameters<Day>) -> Said {
        let day = day_of(&day)?;
        Ok(self.store.read().await?.free(&day))
    }

    /// Books a free hour of a day. Booking the same appointment again changes nothing.
    #[tool(annotations(
        read_only_hint = false,
        destructive_hint = false,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    async fn book(&self, key: Key, Parameters(booking): Parameters<Booking>) -> Said {
        let day = day_of(&booking.day)?;
        let title = name_of("title", &booking.title)?;
        self.store.write(key, move |book| book.book(day, booking.hour, title)).await
    }

    /// Cancels an appointment permanently.
    #[tool(annotations(
        read_only_hint = false,
        destructive_hint = true,
        idempotent_hint = false,
        open_world_hint = false
    ))]
    async fn cancel(
        &self,
        key: Key,
        Parameters(Cancellation { event_id }): Parameters<Cancellation>,
    ) -> Said {
        self.store.write(key, move |book| book.cancel(&key_of(&event_id))).await
    }
}

#[prompt_router]
impl Calendar {
    /// Plans a day around the booked appointments.
    #[prompt]
    async fn plan_my_day(
        &self,
        Parameters(Day { day }): Parameters<Day>,
    ) -> Result<GetPromptResult, ErrorData> {
        let day = day_of(&day).map_err(Refusal::of_prompt)?;
        let book = self.store.read().await.map_err(Refusal::of_prompt)?;
        let text = format!(
            "Plan my {day}: put what needs a clear head first, and leave an hour for lunch.\n\n{}\n{}",
            book.appointments(&day),
            book.free(&day)
        );
        Ok(GetPromptResult::new(vec![PromptMessage::new_text(Role::User, text)])
            .with_description(format!("plans {day}")))
    }
}

#[tool_handler(
    name = "calendar",
    instructions = "The user's appointments. They last one hour, between 9 and 17."
)]
#[prompt_handler]
impl ServerHandler for Calendar {}

impl Book {
    fn book(&mut self, day: String, hour: u8, title: String) -> Said {
        if !WORKING_HOURS.contains(&hour) {
            return Err(Refusal::new(format!("{hour}:00 is not a working hour; {}", self.free(&day))));
        }
        if let Some(taken) = self.events.iter().find(|event| event.day == day && event.hour == hour) {
            if taken.title == title {
                return Ok(taken.booked());
            }
            return Err(Refusal::new(format!("{day} {hour}:00 is taken; {}", self.free(&day))));
        }
        self.booked += 1;
        let event = Event { id: format!("e{}", self.booked), day, hour, title };
        let said = event.booked();
        self.events.push(event);
        Ok(said)
    }

    fn cancel(&mut self, id: &str) -> Said {
        let Some(place) = self.events.iter().position(|event| event.id == id) else {
            let hint = "list_events tells the ids of a day";
            return Err(Refusal::new(format!("no appointment has the id {id:?}; {hint}")));
        };
        let Event { id, day, hour, title } = self.events.remove(place);
        Ok(format!("cancelled {id}: {day} {hour}:00 {title}"))
    }

    fn appointments(&self, day: &str) -> String {
        let mut events: Vec<&Event> = self.events.iter().filter(|event| event.day == day).collect();
        if events.is_empty() {
            return format!("nothing is booked on {day}");
        }
        events.sort_by_key(|event| event.hour);
        let lines = events.iter().map(|event| format!("{}:00 {} (id {})", event.hour, event.title, event.id));
        format!("booked on {day}:\n{}", items(lines))
    }

    fn free(&self, day: &str) -> String {
        let taken = |hour: &u8| self.events.iter().any(|event| event.day == day && event.hour == *hour);
        let free: Vec<String> =
            WORKING_HOURS.filter(|hour| !taken(hour)).map(|hour| format!("{hour}:00")).collect();
        if free.is_empty() {
            return format!("no hour is free on {day}");
        }
        format!("free on {day}: {}", free.join(", "))
    }
}

impl Event {
    fn booked(&self) -> String {
        let Self { id, day, hour, title } = self;
        format!("booked {day} {hour}:00 {title} (id {id})")
    }
}

fn day_of(text: &str) -> Said {
    name_of("day", text).map(|day| day.to_lowercase())
}
