//! One shape for all pods of a template.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use plimsoll_core::hpa::{HpaPod, Shape};
use serde_json::Value;

/// Below this it is not worth looking which shapes no pod has any more.
const FEW: usize = 1_024;

/// Reads pods so that those of one template share their shape.
#[derive(Debug, Default)]
pub(super) struct Shapes(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    shapes: HashSet<Arc<Shape>>,
    namespaces: HashSet<Arc<str>>,
    /// How many shapes there may be before it is looked which ones are no longer needed.
    room: usize,
}

impl Shapes {
    /// A pod as the API server has it. `None` for what has no name.
    pub(super) fn read(&self, pod: &Value) -> Option<HpaPod> {
        let mut pod = HpaPod::read(pod)?;
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.forget();
        pod.shape = shared(&mut known.shapes, pod.shape);
        pod.namespace = shared(&mut known.namespaces, pod.namespace);
        Some(pod)
    }

    /// How many shapes are kept.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).shapes.len()
    }
}

impl Known {
    /// Lets go what nobody else has, each time that there is twice as much as was needed the last time.
    fn forget(&mut self) {
        if self.shapes.len() < self.room.max(FEW) {
            return;
        }
        self.shapes.retain(|shape| Arc::strong_count(shape) > 1);
        self.namespaces.retain(|name| Arc::strong_count(name) > 1);
        self.room = self.shapes.len() * 2;
    }
}

fn shared<T: ?Sized + Eq + std::hash::Hash>(known: &mut HashSet<Arc<T>>, value: Arc<T>) -> Arc<T> {
    if let Some(same) = known.get(&value) {
        return Arc::clone(same);
    }
    known.insert(Arc::clone(&value));
    value
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: usize, template: usize) -> Value {
        json!({
            "metadata": {"namespace": "shop", "name": format!("p-{name}"), "labels": {"template": template.to_string()}},
            "spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "1"}}}]},
        })
    }

    #[test]
    fn pods_of_a_template_share_a_shape() {
        let shapes = Shapes::default();
        let read = |name, template| shapes.read(&pod(name, template)).unwrap();
        let (a, b, c) = (read(0, 0), read(1, 0), read(2, 1));
        assert!(Arc::ptr_eq(&a.shape, &b.shape) && !Arc::ptr_eq(&a.shape, &c.shape));
        assert!(Arc::ptr_eq(&a.namespace, &c.namespace));
        assert_eq!(shapes.read(&json!({"metadata": {"name": "p"}})), None, "no namespace");
    }

    #[test]
    fn shapes_that_no_pod_has_are_let_go() {
        let shapes = Shapes::default();
        let kept: Vec<_> = (0..100).map(|name| shapes.read(&pod(name, name)).unwrap()).collect();
        for name in 100..20 * FEW {
            shapes.read(&pod(name, name)).unwrap();
        }
        assert!(shapes.len() <= FEW, "{}", shapes.len());
        let again = shapes.read(&pod(7, 7)).unwrap();
        assert!(Arc::ptr_eq(&again.shape, &kept[7].shape), "those that are needed stay");
    }
}
