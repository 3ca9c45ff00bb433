//! The address book: people and their email addresses.

use std::{collections::BTreeMap, path::PathBuf};

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
    words::{Refusal, Said, items, key_of, name_of, unknown},
};

/// State of the contacts server.
#[derive(Debug, Clone)]
pub(crate) struct Contacts {
    store: Store<People>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct People {
    /// People by name in lower case: names that differ in case are one person.
    people: BTreeMap<String, Person>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Person {
    name: String,
    email: String,
}

/// Name of a person to search for.
#[derive(Debug, Deserialize, JsonSchema)]
struct Name {
    /// The name or a part of it; case is ignored.
    name: String,
}

/// Name of a person to remove.
#[derive(Debug, Deserialize, JsonSchema)]
struct FullName {
    /// The full name, as returned by find and list.
    name: String,
}

/// A person to add.
#[derive(Debug, Deserialize, JsonSchema)]
struct Newcomer {
    /// The full name.
    name: String,
    /// The email address.
    email: String,
}

#[tool_router]
impl Contacts {
    pub(crate) fn new(data: PathBuf) -> Self {
        Self { store: Store::new(data) }
    }

    /// Finds people by part of their name.
    #[tool(annotations(
        read_only_hint = true,
        destructive_hint = false,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    async fn find(&self, Parameters(Name { name }): Parameters<Name>) -> Said {
        let name = name_of("name", &name)?;
        let people = self.store.read().await?;
        let found = people.find(&name)?;
        Ok(items(found.into_iter().map(Person::line)))
    }

    /// Lists all people.
    #[tool(annotations(
        read_only_hint = true,
        destructive_hint = false,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    async fn list(&self) -> Said {
        let people = self.store.read().await?.people;
        if people.is_empty() {
            return Ok("the address book is empty".to_owned());
        }
        Ok(items(people.values().map(Person::line)))
    }

    /// Adds a person. Adding the same person with the same address again changes nothing.
    #[tool(annotations(
        read_only_hint = false,
        destructive_hint = false,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    async fn add(&self, key: Key, Parameters(Newcomer { name, email }): Parameters<Newcomer>) -> Said {
        let name = name_of("name", &name)?;
        let email = name_of("email address", &email)?;
        if !email.contains('@') {
            return Err(Refusal::new(format!("{email:?} is not an email address: it has no @")));
        }
        self.store.write(key, move |people| people.add(Person { name, email })).await
    }

    /// Removes a person permanently.
    #[tool(annotations(
        read_only_hint = false,
        destructive_hint = true,
        idempotent_hint = false,
        open_world_hint = false
    ))]
    async fn remove(&self, key: Key, Parameters(FullName { name }): Parameters<FullName>) -> Said {
        self.store.write(key, move |people| people.remove(&name)).await
    }
}

#[prompt_router]
impl Contacts {
    /// Introduces a person of the address book to someone who does not know them.
    #[prompt]
    async fn introduce(
        &self,
        Parameters(Name { name }): Parameters<Name>,
    ) -> Result<GetPromptResult, ErrorData> {
        let name = name_of("name", &name).map_err(Refusal::of_prompt)?;
        let people = self.store.read().await.map_err(Refusal::of_prompt)?;
        let found = people.find(&name).map_err(Refusal::of_prompt)?;
        let text = format!(
            "Write a short and friendly introduction, with the email address, for:\n\n{}",
            items(found.into_iter().map(Person::line))
        );
        Ok(GetPromptResult::new(vec![PromptMessage::new_text(Role::User, text)])
            .with_description(format!("introduces {name}")))
    }
}

#[tool_handler(name = "contacts", instructions = "The user's address book: names and email addresses.")]
#[prompt_handler]
impl ServerHandler for Contacts {}

impl People {
    fn find(&self, name: &str) -> Result<Vec<&Person>, Refusal> {
        let part = key_of(name);
        let found: Vec<&Person> =
            self.people.iter().filter(|(key, _)| key.contains(&part)).map(|(_, person)| person).collect();
        if found.is_empty() {
            return Err(self.unknown(name));
        }
        Ok(found)
    }

    fn add(&mut self, person: Person) -> Said {
        let said = format!("added {}", person.line());
        match self.people.get(&key_of(&person.name)) {
            Some(known) if known.email != person.email => {
                let hint = "remove them first if the address has changed";
                return Err(Refusal::new(format!("{} is in the address book already; {hint}", known.line())));
            }
            Some(_) => {}
            None => {
                self.people.insert(key_of(&person.name), person);
            }
        }
        Ok(said)
    }

    fn remove(&mut self, name: &str) -> Said {
        match self.people.remove(&key_of(name)) {
            Some(person) => Ok(format!("removed {}", person.line())),
            None => Err(self.unknown(name)),
        }
    }

    fn unknown(&self, name: &str) -> Refusal {
        unknown("contact", name, self.people.values().map(|person| person.name.as_str()))
    }
}

impl Person {
    fn line(&self) -> String {
        format!("{} <{}>", self.name, self.email)
    }
}
