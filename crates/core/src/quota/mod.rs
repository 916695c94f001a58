//! Elastic quota: what namespaces are guaranteed, what they may borrow, and who gives it back.
//!
//! A [`Tree`] says who may use how much; [`charge`] what a pod counts, [`blocks`] whether it fits, and [`plan`] who
//! makes room for it; [`words`] says so to people. What is used and promised is in the [`ledger`], by which a batch of
//! pods is judged; the leader's [`keeper`] keeps it true.

mod amounts;
mod charge;
mod check;
pub mod flavor;
pub mod keeper;
pub mod ledger;
mod place;
mod pod;
mod read;
mod reclaim;
mod report;
mod stored;
mod tree;
mod used;
mod verdict;
mod walk;
pub mod words;

pub use amounts::{Amounts, shown};
pub use charge::{ChargeError, PODS, as_written, charge, counted};
pub use flavor::Flavor;
pub use place::{Judgement, TreePlace, UsageByNamespace, usage_by_namespace};
pub use pod::{QuotaPod, QuotaPodError};
pub use read::{TREE_GROUP, TREE_KIND, TREE_VERSION};
pub use reclaim::{Candidates, Honour, NEVER_EVICTED_FROM, Plan, PodNames, Situation, Victim, plan};
pub use report::{Borrowing, Report, report};
pub use stored::{StoredTree, TREE_NAMESPACE};
pub use tree::{Node, NodeId, Tree};
pub use used::Used;
pub use verdict::{Block, blocks, is_entitled};
pub use walk::{MOST_DEPTH, MOST_NAME, MOST_NODES, MOST_PATH, MOST_PROBLEMS, MOST_RESOURCES, is_queue_key};
