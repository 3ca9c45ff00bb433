//! The notebook: short texts with a title.

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

/// Maximum length of a note in characters.
const MAX_TEXT: usize = 50_000;
/// Maximum characters of a note shown by a search.
const EXCERPT: usize = 80;

/// State of the notes server.
#[derive(Debug, Clone)]
pub(crate) struct Notes {
    store: Store<Notebook>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Notebook {
    /// Notes by title in lower case: titles that differ in case are one note.
    notes: BTreeMap<String, Note>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Note {
    title: String,
    text: String,
}

/// Text to search for.
#[derive(Debug, Deserialize, JsonSchema)]
struct Query {
    /// Words that a note's title or text contains, exactly as written. An empty query finds every note.
    query: String,
}

/// Title of a note.
#[derive(Debug, Deserialize, JsonSchema)]
struct Title {
    /// The title of the note, as returned by search.
    title: String,
}

/// A text, and the title of its note.
#[derive(Debug, Deserialize, JsonSchema)]
struct Entry {
    /// The title of the note.
    title: String,
    /// Text of the note.
    text: String,
}

#[tool_router]
impl Notes {
    pub(crate) fn new(data: PathBuf) -> Self {
        Self { store: Store::new(data) }
    }

    /// Finds notes by words in their title or text.
    #[tool(annotations(
        read_only_hint = true,
        destructive_hint = false,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    async fn search(&self, Parameters(Query { query }): Parameters<Query>) -> Said {
        Ok(self.store.read().await?.search(&query))
    }

    /// Reads a note.
    #[tool(annotations(
        read_only_hint = true,
        destructive_hint = false,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    async fn read(&self, Parameters(Title { title }): Parameters<Title>) -> Said {
        let notebook = self.store.read().await?;
        notebook.get(&title).map(Note::whole)
    }

    /// Writes a new note. Writing the same note again changes nothing; a different text under an existing title is
    /// refused.
    #[tool(annotations(
        read_only_hint = false,
        destructive_hint = false,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    async fn write(&self, key: Key, Parameters(entry): Parameters<Entry>) -> Said {
        let note = Note::new(entry)?;
        self.store.write(key, move |notebook| notebook.write(note)).await
    }

    /// Appends a line to a note, or creates the note. Appending the same line again adds it again.
    #[tool(annotations(
        read_only_hint = false,
        destructive_hint = false,
        idempotent_hint = false,
        open_world_hint = false
    ))]
    async fn append(&self, key: Key, Parameters(entry): Parameters<Entry>) -> Said {
        let note = Note::new(entry)?;
        self.store.write(key, move |notebook| notebook.append(note)).await
    }

    /// Deletes a note permanently.
    #[tool(annotations(
        read_only_hint = false,
        destructive_hint = true,
        idempotent_hint = false,
        open_world_hint = false
    ))]
    async fn delete(&self, key: Key, Parameters(Title { title }): Parameters<Title>) -> Said {
        self.store.write(key, move |notebook| notebook.delete(&title)).await
    }
}

#[prompt_router]
impl Notes {
    /// Summarises a note.
    #[prompt]
    async fn summarise(
        &self,
        Parameters(Title { title }): Parameters<Title>,
    ) -> Result<GetPromptResult, ErrorData> {
        let notebook = self.store.read().await.map_err(Refusal::of_prompt)?;
        let note = notebook.get(&title).map_err(Refusal::of_prompt)?;
        let text = format!("Summarise this note in at most three sentences.\n\n{}", note.whole());
        Ok(GetPromptResult::new(vec![PromptMessage::new_text(Role::User, text)])
            .with_description(format!("summarises {}", note.title)))
    }
}

#[tool_handler(name = "notes", instructions = "The user's notes: short texts with a title.")]
#[prompt_handler]
impl ServerHandler for Notes {}

impl Notebook {
    fn search(&self, query: &str) -> String {
        let words = key_of(query);
        let found: Vec<&Note> = self.notes.values().filter(|note| note.contains(&words)).collect();
        if found.is_empty() {
            return format!("none of {} notes contains {query:?}", self.notes.len());
        }
        items(found.into_iter().map(Note::line))
    }

    fn get(&self, title: &str) -> Result<&Note, Refusal> {
        self.notes.get(&key_of(title)).ok_or_else(|| self.unknown(title))
    }

    fn write(&mut self, note: Note) -> Said {
        let said = format!("wrote {:?}", note.title);
        match self.notes.get(&key_of(&note.title)) {
            Some(known) if known.text != note.text => {
                let hint = "append to it, delete it first, or choose another title";
                return Err(Refusal::new(format!("there is a note {:?} already; {hint}", known.title)));
            }
            Some(_) => {}
            None => {
                self.notes.insert(key_of(&note.title), note);
            }
        }
        Ok(said)
    }

    fn append(&mut self, more: Note) -> Said {
        let Some(note) = self.notes.get_mut(&key_of(&more.title)) else {
            return self.write(more);
        };
        let text = format!("{}\n{}", note.text, more.text);
        check_length(&text)?;
        note.text = text;
        Ok(format!("appended to {:?}", note.title))
    }

    fn delete(&mut self, title: &str) -> Said {
        match self.notes.remove(&key_of(title)) {
            Some(note) => Ok(format!("deleted {:?}", note.title)),
            None => Err(self.unknown(title)),
        }
    }

    fn unknown(&self, title: &str) -> Refusal {
        unknown("note", title, self.notes.values().map(|note| note.title.as_str()))
    }
}

impl Note {
    fn new(Entry { title, text }: Entry) -> Result<Self, Refusal> {
        let title = name_of("title", &title)?;
        if text.trim().is_empty() {
            return Err(Refusal::new("the text is empty"));
        }
        check_length(&text)?;
        Ok(Self { title, text })
    }

    fn contains(&self, words: &str) -> bool {
        self.title.to_lowercase().contains(words) || self.text.to_lowercase().contains(words)
    }

    fn line(&self) -> String {
        let text = self.text.split_whitespace().collect::<Vec<_>>().join(" ");
        let excerpt: String = text.chars().take(EXCERPT).collect();
        let rest = if excerpt.len() < text.len() { "…" } else { "" };
        format!("{}: {excerpt}{rest}", self.title)
    }

    fn whole(&self) -> String {
        format!("{}\n\n{}", self.title, self.text)
    }
}

fn check_length(text: &str) -> Result<(), Refusal> {
    let length = text.chars().count();
    if length > MAX_TEXT {
        return Err(Refusal::new(format!("the note has {length} characters, at most {MAX_TEXT} are kept")));
    }
    Ok(())
}
