//! A log as lines of JSON, byte for byte as it is stored, with the contents of its images and files.

use std::collections::BTreeSet;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};
use shared::Event;
use store::{Error, Store, ThreadId};

/// Number of events read at a time.
const PAGE: u64 = 100;

/// A line of an exported log: an event as it is stored. A folder of `audit export` has further fields.
#[derive(Debug, Serialize, Deserialize)]
pub struct EventLine {
    /// Id of the thread.
    pub thread: ThreadId,
    /// Number of the event.
    pub seq: u64,
    /// Microseconds since the Unix epoch.
    pub at: i64,
    /// Kind of the event.
    pub kind: String,
    /// The stored bytes, which the hash covers.
    pub payload: String,
    /// Hash of the event and all events before it, in hexadecimal.
    pub hash: String,
}

/// A line of an exported log after the events: the content of an image or file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttachmentLine {
    /// SHA-256 of the content, in hexadecimal.
    pub sha256: String,
    /// The bytes in base64.
    pub content: String,
}

/// An export of one log, read in parts so that a long log needs little memory.
#[derive(Debug)]
pub struct LogExport {
    store: Store,
    thread: ThreadId,
    next_seq: u64,
    /// Attachments of the events so far, which are exported after the last event.
    attachments: BTreeSet<String>,
    has_all_events: bool,
}

impl LogExport {
    /// Creates an export of a thread. Nothing is read before [`LogExport::next`].
    pub fn new(store: Store, thread: ThreadId) -> Self {
        Self { store, thread, next_seq: 0, attachments: BTreeSet::new(), has_all_events: false }
    }

    /// Returns the next lines, each with its line end. `None`: the export is complete.
    ///
    /// # Errors
    ///
    /// [`Error`] if a read fails, or the content of an attachment is missing.
    pub async fn next(&mut self) -> Result<Option<String>, Error> {
        if !self.has_all_events {
            let page = self.store.stored(self.thread, self.next_seq, PAGE).await?;
            if let Some(last) = page.last() {
                self.next_seq = last.seq + 1;
                return page
                    .into_iter()
                    .map(|stored| self.event(stored))
                    .collect::<Result<String, _>>()
                    .map(Some);
            }
            self.has_all_events = true;
        }
        let Some(sha256) = self.attachments.pop_first() else { return Ok(None) };
        let content = self.store.attachment(self.thread, &sha256).await?.ok_or_else(|| Error::Corrupt {
            thread: self.thread,
            what: format!("the content of attachment {sha256} is missing"),
        })?;
        self.line(&AttachmentLine { sha256, content: STANDARD.encode(content) }).map(Some)
    }

    fn event(&mut self, stored: store::Stored) -> Result<String, Error> {
        // An event that this build cannot read is exported as it is.
        let event = Event::decode(&stored.kind, &stored.payload).ok();
        let named = event.iter().flat_map(Event::attachments).map(|attachment| attachment.sha256.clone());
        self.attachments.extend(named);
        let (thread, hash) = (self.thread, hex::encode(stored.hash));
        self.line(&EventLine {
            thread,
            seq: stored.seq,
            at: stored.at,
            kind: stored.kind,
            payload: stored.payload,
            hash,
        })
    }

    fn line(&self, line: &impl Serialize) -> Result<String, Error> {
        let written = serde_json::to_string(line).map(|text| text + "\n");
        written.map_err(|error| Error::Corrupt { thread: self.thread, what: error.to_string() })
    }
}
