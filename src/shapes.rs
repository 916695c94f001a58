//! One copy of what many pods have in common.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

/// Below this it is not worth looking which shapes no pod has any more.
const FEW: usize = 1_024;

/// Makes equal shapes and names one and the same, so that the pods of a template share theirs.
#[derive(Debug)]
pub(crate) struct Shapes<S>(Mutex<Known<S>>);

#[derive(Debug)]
struct Known<S> {
    shapes: HashSet<Arc<S>>,
    names: HashSet<Arc<str>>,
    /// How many shapes there may be before it is looked which ones are no longer needed.
    room: usize,
}

impl<S> Default for Shapes<S> {
    fn default() -> Self {
        Self(Mutex::new(Known { shapes: HashSet::new(), names: HashSet::new(), room: 0 }))
    }
}

impl<S: Eq + Hash> Shapes<S> {
    /// Puts what is known already in the place of its equals. Names are those that many pods have: of a namespace, of a
    /// node.
    pub(crate) fn share<'a>(&self, shape: &mut Arc<S>, names: impl IntoIterator<Item = &'a mut Arc<str>>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.forget();
        share(&mut known.shapes, shape);
        for name in names {
            share(&mut known.names, name);
        }
    }

    /// How many shapes are kept.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).shapes.len()
    }
}

impl<S: Eq + Hash> Known<S> {
    /// Lets go what nobody else has, each time that there is twice as much as was needed the last time.
    fn forget(&mut self) {
        if self.shapes.len() < self.room.max(FEW) {
            return;
        }
        self.shapes.retain(|shape| Arc::strong_count(shape) > 1);
        self.names.retain(|name| Arc::strong_count(name) > 1);
        self.room = self.shapes.len() * 2;
    }
}

fn share<T: ?Sized + Eq + Hash>(known: &mut HashSet<Arc<T>>, value: &mut Arc<T>) {
    if let Some(same) = known.get(value) {
        *value = Arc::clone(same);
    } else {
        known.insert(Arc::clone(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(shapes: &Shapes<usize>, template: usize) -> (Arc<usize>, Arc<str>) {
        let (mut shape, mut name) = (Arc::new(template), Arc::from("shop"));
        shapes.share(&mut shape, [&mut name]);
        (shape, name)
    }

    #[test]
    fn pods_of_a_template_share_a_shape() {
        let shapes = Shapes::default();
        let (a, b, c) = (read(&shapes, 0), read(&shapes, 0), read(&shapes, 1));
        assert!(Arc::ptr_eq(&a.0, &b.0) && !Arc::ptr_eq(&a.0, &c.0));
        assert!(Arc::ptr_eq(&a.1, &c.1));
    }

    #[test]
    fn shapes_that_no_pod_has_are_let_go() {
        let shapes = Shapes::default();
        let kept: Vec<_> = (0..100).map(|template| read(&shapes, template)).collect();
        for template in 100..20 * FEW {
            read(&shapes, template);
        }
        assert!(shapes.len() <= FEW, "{}", shapes.len());
        assert!(Arc::ptr_eq(&read(&shapes, 7).0, &kept[7].0), "those that are needed stay");
    }
}
