//! Verifies administrative logs against their chains and the attested heads, and rows against the logs.

use std::ops::ControlFlow;

use uuid::Uuid;

use super::{
    entry::{admin_log, decode},
    expected::Expected,
};
use crate::{AttestedHeads, Error, Finding, Head, RowFinding, Store, Wrong, integrity::chain_walk::Walk};

/// Rounds of a comparison before its findings are taken as they are: a change during one makes it start again.
const ROUNDS: usize = 5;

/// Result of the verification of administrative logs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdminVerified {
    /// Number of logs.
    pub logs: u64,
    /// Number of entries.
    pub entries: u64,
    /// Number of entries that match attested heads.
    pub attested: u64,
    /// Number of logs with entries beyond their attested head.
    pub beyond: u64,
    /// Heads of the logs without a finding.
    pub heads: Vec<Head>,
    /// Findings in logs, with the id of the log in place of a thread.
    pub findings: Vec<Finding>,
    /// Entries that this build cannot read.
    pub unreadable: u64,
    /// Rows that differ from the logs. Not compared if an entry is unreadable.
    pub rows: Vec<RowFinding>,
}

impl Store {
    /// Verifies all administrative logs, and compares with them the rows of keys, holds, pins, pauses, forgotten
    /// models, schedules and webhooks.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn verify_admin_logs(&self, attested: &dyn AttestedHeads) -> Result<AdminVerified, Error> {
        let mut round = 1;
        loop {
            let (mut verified, expected, ends) = self.walk_admin_logs(attested).await?;
            if 0 < verified.unreadable {
                return Ok(verified);
            }
            verified.rows = self.admin_rows(&expected).await?;
            verified.rows.extend(self.admin_fields(&expected).await?);
            // A row changes together with its log. The same heads before and after mean that nothing changed between.
            if verified.rows.is_empty() || round == ROUNDS || self.admin_heads().await? == ends {
                return Ok(verified);
            }
            round += 1;
        }
    }

    /// Returns the result for the logs, the rows that they demand, and their heads.
    async fn walk_admin_logs(
        &self,
        attested: &dyn AttestedHeads,
    ) -> Result<(AdminVerified, Expected, Vec<Head>), Error> {
        let (mut verified, mut expected) = (AdminVerified::default(), Expected::default());
        let mut ends = Vec::new();
        for log in self.admin_logs().await? {
            let mut walk = Walk::new(log, attested.heads(log));
            let mut strange = None;
            self.along_admin_log(log, |row| {
                verified.entries += 1;
                let fits = walk.pass(row);
                match decode(row) {
                    Ok(entry) if admin_log(entry.tenant.as_deref()) != log => {
                        strange = strange.or(Some(entry.seq));
                    }
                    Ok(entry) => expected.add(entry),
                    Err(error) if fits => walk.unreadable(&row.columns, &error),
                    Err(_) => {}
                }
                ControlFlow::Continue(())
            })
            .await?;
            let (seq, hash) = walk.end();
            ends.push(Head { thread: log, seq, hash });
            verified.end(log, walk, strange);
        }
        Ok((verified, expected, ends))
    }

    async fn admin_heads(&self) -> Result<Vec<Head>, Error> {
        let mut heads = Vec::new();
        for log in self.admin_logs().await? {
            let mut walk = Walk::new(log, Vec::new());
            self.along_admin_log(log, |row| {
                walk.pass(row);
                ControlFlow::Continue(())
            })
            .await?;
            let (seq, hash) = walk.end();
            heads.push(Head { thread: log, seq, hash });
        }
        Ok(heads)
    }
}

impl AdminVerified {
    /// Adds the result of a finished walk. `strange` is the number of the first entry that names another tenant.
    fn end(&mut self, log: Uuid, walk: Walk, strange: Option<u64>) {
        let ((seq, hash), attested) = (walk.end(), walk.attested());
        self.logs += 1;
        self.attested += attested;
        self.beyond += u64::from(attested < seq);
        let mut found = walk.finish();
        self.unreadable += found.iter().filter(|it| it.wrong == Wrong::Unreadable).count() as u64;
        found.retain(|finding| finding.wrong != Wrong::Unreadable);
        if let Some(seq) = strange {
            let what = format!("entry {seq} belongs to the log of another tenant");
            found.push(Finding { thread: log, seq, wrong: Wrong::Exchanged, what });
        }
        match found.is_empty() {
            true => self.heads.push(Head { thread: log, seq, hash }),
            false => self.findings.extend(found.into_iter().map(named)),
        }
    }
}

/// Says in a finding that it is about an administrative log.
fn named(finding: Finding) -> Finding {
    let what = format!("administrative log {}: {}", finding.thread, finding.what);
    Finding { what, ..finding }
}
