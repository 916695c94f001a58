//! Elastic quota: what namespaces are guaranteed, what they may borrow, and who gives it back.
//!
//! A [`Tree`] says who may use how much; [`charge`] says what a pod counts.

mod amounts;
mod charge;
pub mod flavor;
mod pod;
mod stored;
mod tree;
mod used;
mod verdict;

pub use amounts::{Amounts, shown};
pub use charge::{ChargeError, PODS, charge, counted};
pub use flavor::Flavor;
pub use pod::{QuotaPod, QuotaPodError};
pub use stored::{StoredTree, TREE_NAMESPACE};
pub use tree::{Node, NodeId, Tree};
pub use used::Used;
pub use verdict::{Block, blocks, is_entitled};
