//! Use of prompts since they were first used: responses, ends of turns and ratings, by strategy, node, prompt and model.
//!
//! ## Why these counts have no intervals
//!
//! A prompt is judged over its whole life, which may be longer than intervals are kept. A process that is killed loses what it counted in
//! its last second; nothing counts that again.

use std::collections::BTreeMap;

use sea_orm::{ConnectionTrait as _, FromQueryResult, Value};

use crate::{
    Error, Store, ThreadId,
    log::{Transaction, at_most, signed, statement, unsigned},
    sql_batch::{StatementText, id, number, text},
    stats::{
        CountedEnd,
        uses::{AskedModel, Ratings, Use, UseCounts},
    },
};

/// Maximum rows per statement.
const ROWS_MAX: usize = 1_000;

/// Threads in which a configured prompt is looked for.
const THREADS_MAX: u64 = 5;

/// Use of a prompt by one node with one model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptUse {
    /// Strategy of the threads.
    pub strategy: String,
    /// Node, prompt and model.
    pub asked: AskedModel,
    /// First and last use, in microseconds since the Unix epoch.
    pub used: (i64, i64),
    /// Number of responses.
    pub responses: u64,
    /// Tokens that the model read and wrote.
    pub tokens: (u64, u64),
    /// Cost in millionths of a US dollar.
    pub micro_usd: u64,
    /// Number of responses without a configured price.
    pub without_price: u64,
    /// Turns in which the prompt was used, by their end: answered, partial, declined and failed.
    pub turns: [u64; 4],
    /// Ratings of these turns.
    pub ratings: Ratings,
}

/// Adds to the rows of known subjects, and inserts new ones while the tenant has fewer than 10,000.
const ADD_USES: StatementText = StatementText {
    postgres: "INSERT INTO prompt_counts AS counts (tenant, strategy, node, prompt, model, first_used, last_used, \
               last_thread, responses, input_tokens, output_tokens, micro_usd, without_price, answered, partial, \
               declined, failed, good, bad) \
               SELECT it.* FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], \
               $7::bigint[], $8::uuid[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], \
               $14::bigint[], $15::bigint[], $16::bigint[], $17::bigint[], $18::bigint[], $19::bigint[]) \
               AS it (tenant, strategy, node, prompt, model) \
               WHERE EXISTS (SELECT 1 FROM prompt_counts AS known WHERE known.tenant = it.tenant \
               AND known.strategy = it.strategy AND known.node = it.node AND known.prompt = it.prompt \
               AND known.model = it.model) \
               OR (SELECT count(*) FROM prompt_counts AS known WHERE known.tenant = it.tenant) < 10000 \
               ON CONFLICT (tenant, strategy, node, prompt, model) DO UPDATE SET \
               first_used = least(counts.first_used, excluded.first_used), \
               last_used = greatest(counts.last_used, excluded.last_used), last_thread = excluded.last_thread, \
               responses = counts.responses + excluded.responses, \
               input_tokens = counts.input_tokens + excluded.input_tokens, \
               output_tokens = counts.output_tokens + excluded.output_tokens, \
               micro_usd = counts.micro_usd + excluded.micro_usd, \
               without_price = counts.without_price + excluded.without_price, \
               answered = counts.answered + excluded.answered, partial = counts.partial + excluded.partial, \
               declined = counts.declined + excluded.declined, failed = counts.failed + excluded.failed, \
               good = counts.good + excluded.good, bad = counts.bad + excluded.bad",
    sqlite: "INSERT INTO prompt_counts AS counts (tenant, strategy, node, prompt, model, first_used, last_used, \
             last_thread, responses, input_tokens, output_tokens, micro_usd, without_price, answered, partial, \
             declined, failed, good, bad) \
             SELECT value ->> 'tenant', value ->> 'strategy', value ->> 'node', value ->> 'prompt', \
             value ->> 'model', value ->> 'first_used', value ->> 'last_used', unhex(value ->> 'last_thread'), \
             value ->> 'responses', value ->> 'input_tokens', value ->> 'output_tokens', value ->> 'micro_usd', \
             value ->> 'without_price', value ->> 'answered', value ->> 'partial', value ->> 'declined', \
             value ->> 'failed', value ->> 'good', value ->> 'bad' FROM json_each(?1) \
             WHERE EXISTS (SELECT 1 FROM prompt_counts AS known WHERE known.tenant = value ->> 'tenant' \
             AND known.strategy = value ->> 'strategy' AND known.node = value ->> 'node' \
             AND known.prompt = value ->> 'prompt' AND known.model = value ->> 'model') \
             OR (SELECT count(*) FROM prompt_counts AS known WHERE known.tenant = value ->> 'tenant') < 10000 \
             ON CONFLICT (tenant, strategy, node, prompt, model) DO UPDATE SET \
             first_used = min(counts.first_used, excluded.first_used), \
             last_used = max(counts.last_used, excluded.last_used), last_thread = excluded.last_thread, \
             responses = counts.responses + excluded.responses, \
             input_tokens = counts.input_tokens + excluded.input_tokens, \
             output_tokens = counts.output_tokens + excluded.output_tokens, \
             micro_usd = counts.micro_usd + excluded.micro_usd, \
             without_price = counts.without_price + excluded.without_price, \
             answered = counts.answered + excluded.answered, partial = counts.partial + excluded.partial, \
             declined = counts.declined + excluded.declined, failed = counts.failed + excluded.failed, \
             good = counts.good + excluded.good, bad = counts.bad + excluded.bad",
};

/// Adds counts to the rows of their subjects.
pub(super) async fn add_uses(tx: &Transaction, counted: BTreeMap<Use, UseCounts>) -> Result<(), Error> {
    let uses: Vec<_> = counted.into_iter().collect();
    for rows in uses.chunks(ROWS_MAX) {
        let columns = [
            text("tenant", rows, |(subject, _)| subject.tenant.clone()),
            text("strategy", rows, |(subject, _)| subject.strategy.clone()),
            text("node", rows, |(subject, _)| subject.asked.node.clone()),
            text("prompt", rows, |(subject, _)| subject.asked.prompt.clone()),
            text("model", rows, |(subject, _)| subject.asked.model.clone()),
            number("first_used", rows, |(_, counts)| counts.first),
            number("last_used", rows, |(_, counts)| counts.last),
            id("last_thread", rows, |(_, counts)| counts.thread),
            number("responses", rows, |(_, counts)| signed(counts.responses.responses)),
            number("input_tokens", rows, |(_, counts)| signed(counts.responses.usage.input_tokens)),
            number("output_tokens", rows, |(_, counts)| signed(counts.responses.usage.output_tokens)),
            number("micro_usd", rows, |(_, counts)| signed(counts.responses.usage.micro_usd)),
            number("without_price", rows, |(_, counts)| {
                signed(counts.responses.usage.responses_without_price)
            }),
            number("answered", rows, |(_, counts)| counts.turns(CountedEnd::Answered)),
            number("partial", rows, |(_, counts)| counts.turns(CountedEnd::Partial)),
            number("declined", rows, |(_, counts)| counts.turns(CountedEnd::Declined)),
            number("failed", rows, |(_, counts)| counts.turns(CountedEnd::Failed)),
            number("good", rows, |(_, counts)| counts.ratings.good),
            number("bad", rows, |(_, counts)| counts.ratings.bad),
        ];
        tx.execute_raw(ADD_USES.with(tx, [], columns)).await?;
    }
    Ok(())
}

#[derive(FromQueryResult)]
struct UseRow {
    strategy: String,
    node: String,
    prompt: String,
    model: String,
    first_used: i64,
    last_used: i64,
    responses: i64,
    input_tokens: i64,
    output_tokens: i64,
    micro_usd: i64,
    without_price: i64,
    answered: i64,
    partial: i64,
    declined: i64,
    failed: i64,
    good: i64,
    bad: i64,
}

impl UseRow {
    fn shown(self) -> Result<PromptUse, Error> {
        let turns = [self.answered, self.partial, self.declined, self.failed].map(unsigned);
        let [answered, partial, declined, failed] = turns;
        Ok(PromptUse {
            strategy: self.strategy,
            asked: AskedModel { node: self.node, prompt: self.prompt, model: self.model },
            used: (self.first_used, self.last_used),
            responses: unsigned(self.responses)?,
            tokens: (unsigned(self.input_tokens)?, unsigned(self.output_tokens)?),
            micro_usd: unsigned(self.micro_usd)?,
            without_price: unsigned(self.without_price)?,
            turns: [answered?, partial?, declined?, failed?],
            ratings: Ratings { good: self.good, bad: self.bad },
        })
    }
}

/// Rows of the tenant `$1`, and of prompts whose names begin with `$2`. Empty texts select all.
const SELECTED: &str = "WHERE ($1 = '' OR tenant = $1) AND ($2 = '' OR substr(prompt, 1, length($2)) = $2)";

impl Store {
    /// Returns the use of the prompts whose names begin with `prompt`, the last used ones first, of one tenant or of all. Reads all rows
    /// of the tenant, at most 10,000.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn prompt_uses(
        &self,
        tenant: Option<&str>,
        prompt: &str,
        limit: u64,
    ) -> Result<Vec<PromptUse>, Error> {
        let sum = |column: &str| format!("CAST(sum({column}) AS BIGINT) AS {column}");
        let sums = [
            "responses",
            "input_tokens",
            "output_tokens",
            "micro_usd",
            "without_price",
            "answered",
            "partial",
            "declined",
            "failed",
            "good",
            "bad",
        ];
        let sql = format!(
            "SELECT strategy, node, prompt, model, min(first_used) AS first_used, max(last_used) AS last_used, {} \
             FROM prompt_counts {SELECTED} GROUP BY strategy, node, prompt, model \
             ORDER BY 6 DESC, strategy, node, prompt, model LIMIT {}",
            sums.map(sum).join(", "),
            signed(at_most(limit))
        );
        let values: [Value; 2] = [tenant.unwrap_or_default().into(), prompt.into()];
        let pool = &self.database.pool;
        let rows = UseRow::find_by_statement(statement(pool, &sql, values)).all(pool).await?;
        rows.into_iter().map(UseRow::shown).collect()
    }

    /// Returns the threads that used a prompt last, at most five: each node and model names one.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn threads_of_prompt(
        &self,
        tenant: Option<&str>,
        prompt: &str,
    ) -> Result<Vec<ThreadId>, Error> {
        #[derive(FromQueryResult)]
        struct Row {
            last_thread: ThreadId,
        }
        let sql = format!(
            "SELECT last_thread FROM prompt_counts {SELECTED} ORDER BY last_used DESC LIMIT {THREADS_MAX}"
        );
        let values: [Value; 2] = [tenant.unwrap_or_default().into(), prompt.into()];
        let pool = &self.database.pool;
        let rows = Row::find_by_statement(statement(pool, &sql, values)).all(pool).await?;
        Ok(rows.into_iter().map(|row| row.last_thread).collect())
    }

    /// Keeps the texts of built-in prompts, by name. Known ones stay as they are.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn keep_templates(&self, templates: &BTreeMap<String, &'static str>) -> Result<(), Error> {
        let sql =
            "INSERT INTO prompt_templates (name, content) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING";
        let writer = &self.database.writer;
        for (name, content) in templates {
            let values: [Value; 2] = [name.as_str().into(), (*content).into()];
            writer.execute_raw(statement(writer, sql, values)).await?;
        }
        Ok(())
    }

    /// Returns the text of a built-in prompt, also of an earlier version.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn template(&self, name: &str) -> Result<Option<String>, Error> {
        #[derive(FromQueryResult)]
        struct Row {
            content: String,
        }
        let sql = "SELECT content FROM prompt_templates WHERE name = $1";
        let pool = &self.database.pool;
        let row = Row::find_by_statement(statement(pool, sql, [name.into()])).one(pool).await?;
        Ok(row.map(|row| row.content))
    }
}
