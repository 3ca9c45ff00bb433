//! The job queue of many processes, in Redis.
//!
//! | key | contents |
//! |---|---|
//! | list `lane:PRIORITY:TENANT` | Waiting jobs, each `thread` or `thread seq`, where seq is the end of its log. A tenant without waiting jobs has no list. |
//! | sorted set `tenants` | Tenants with waiting jobs, in the order of their turns. After its turn a tenant moves to the end with a higher score; without jobs it leaves. |
//! | string `deficit` | Jobs left in the turn of the first tenant, if the turn was interrupted. All workers share it. |
//! | stream `claimed` | Claimed jobs, and jobs that are being handed to a waiting consumer. An entry has one field, `job`, with the text `PRIORITY:TENANT thread` and perhaps a seq. The entry's id is the job's token. Entries are added at the tail and deleted when they are acknowledged; the stream is never trimmed, because a trimmed entry would be a lost job. |
//! | group [`GROUP`] on it | Redis' list of pending entries is the list of leases: the holder, the time since the last renewal, and how often the entry was delivered. All but the last of these deliveries ended with an expired lease. Reading gives an entry to one consumer; claiming moves it after its lease expired. |
//! | sorted set `waiting_consumers` | Consumers that found no job, each `UNTIL CONSUMER`, in the order in which they began to wait. Expires when none waits. |
//! | sorted set `delayed` | Delayed threads, by due time in milliseconds of Redis' clock. A thread is in it at most once. |
//! | hash `delayed_details` | Lane and block reason of each delayed thread: `PRIORITY:TENANT REASON`. |
//!
//! Every key begins with `turnfold:{PREFIX:jobs}:v1:`. The [`Prefix`] keeps deployments apart, and `turnfold:{PREFIX:jobs}:v1:store`
//! names the store that it belongs to. The version lets two generations of workers share a Redis; the hash tag keeps the keys of a
//! partition on one node of a cluster, as scripts require.
//!
//! In a Redis Cluster there are [`PARTITIONS`] partitions with hash tags of their own, which the cluster spreads over its nodes.
//! A thread's id determines its partition. Each partition has its own round robin of tenants. Whether a server belongs to a
//! cluster is detected when connecting.
//!
//! Nothing here is a source of truth, so the sweeper can restore all of it:
//!
//! | event | state left behind | consequence |
//! |---|---|---|
//! | a thread is not enqueued after an append | a runnable thread without a job | the sweeper enqueues it |
//! | the answer to an enqueue is lost | one or two jobs | the second finds nothing to do |
//! | a worker dies with jobs, or before it learns of them | pending entries | other workers take them over after the lease |
//! | a worker dies while it waits | its registration, and perhaps an unread job | the next claim reads that job first; the registration expires within [`MAX_CLAIM_WAIT`](crate::MAX_CLAIM_WAIT) |
//! | a worker stalls longer than its lease | another worker holds the job | `renew_leases` reports it as lost, `ack` does nothing |
//! | the answer to an acknowledgement is lost | everything happened, or nothing | the repeated call does nothing, or everything |
//! | Redis restarts empty, `FLUSHALL` | nothing | the group is created again; workers learn that their leases are lost, continue, and enqueue the thread when they are done; the sweeper enqueues the others |
//! | Redis is unreachable longer than a lease, with its data kept | expired leases | no job is taken over before Redis has answered for half a lease; a healthy worker renews within a third |
//! | Redis' clock is set forward, or a replica with a fast clock takes over | expired leases | no job is taken over for half a lease; a healthy worker renews within a third |
//! | Redis loses its last second | lost or resurrected jobs | the sweeper enqueues; a resurrected job finds nothing to do |
//! | a job becomes due while nothing is enqueued | a sorted set | every consumer that waits in `claim` has a timer for it |
//! | a node of a cluster fails | its partitions are unavailable until it returns or a replica takes over | the other partitions continue; the sweeper enqueues what was lost |
//! | workers have different weights | one order of turns, with turns of different lengths | each worker applies its own weights |
//!
//! ## Why a job is on the stream only once it is claimed
//!
//! A stream is read in the order in which it was written, so a tenant that floods it would be served first, for hours if need
//! be. Lanes defer the choice until a slot is free. A lane is also cheaper than a stream entry: one command fills or empties it
//! for many jobs.
//!
//! ## Why consumers register as waiting
//!
//! A blocking read of the stream does not notice jobs in lanes. A worker that finds no job therefore registers, in the same
//! script that looked for one, and then reads the stream. While every lane is empty, an enqueued job takes one registration and
//! goes to the stream at once, so a single job is enqueued and wakes its worker in one round trip; the benchmark `first_event`
//! measures that path. A registration hands over one job. The rest of a burst waits in lanes, from where the woken worker
//! claims as many as it has slots.
//!
//! A registration is not tied to its consumer: Redis wakes the reader that has waited longest, and the oldest registration is
//! used first, which is nearly always that reader's. Otherwise (two began to wait within one another's round trip) a worker may
//! wait up to [`MAX_CLAIM_WAIT`](crate::MAX_CLAIM_WAIT) although a job is in a lane.
//!
//! ## Why blocking reads have a connection of their own
//!
//! A blocking read holds up every command behind it on the same connection. It is never cancelled halfway: a delayed job that
//! becomes due during the wait is moved over the other connection, and wakes the read.

mod ack_claim;
mod claims;
pub(crate) mod connection;
mod consumer;
mod delay_timer;
pub(crate) mod entry;
mod inspect;
mod keys;
mod partition;
mod prefix;
mod quarantine;
mod queue;
mod scripts;
mod sentinel;
pub(crate) mod server;
mod server_info;

pub use self::{
    keys::{GROUP, Keys},
    prefix::Prefix,
    queue::{PARTITIONS, RedisQueue},
    server_info::{RedisInfo, redis_info},
};
