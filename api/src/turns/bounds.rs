//! Bounds that an operator sets and a tenant cannot exceed: keys that the schema of a configuration marks, models, and budgets.

use serde_json::Value;
use shared::{BOUND, Budget, Graph, models_of};

use crate::server::{
    problem::{ApiError, Kind},
    tenant_rules::TenantRule,
};

/// Configurations of a strategy, completed by its defaults.
pub(crate) struct Configs<'a> {
    /// Configuration of the operator.
    pub(crate) operator: &'a Value,
    /// Configuration that applied before: that of a fork's source. Null for a new thread. What does not change is not checked.
    pub(crate) before: &'a Value,
    /// Configuration that shall apply.
    pub(crate) after: &'a Value,
}

/// Checks the configuration of a tenant's thread against the operator's.
pub(crate) fn check_config(
    rule: &TenantRule,
    graph: &dyn Graph,
    configs: &Configs<'_>,
) -> Result<(), ApiError> {
    let schema = graph.config_schema();
    let before = if configs.before.is_null() { configs.operator } else { configs.before };
    check_bounds(&schema, &schema, "config", [configs.operator, before, configs.after])?;
    let before: Vec<_> = models_of(configs.before).collect();
    let named: Vec<&str> = models_of(configs.operator).map(|(_, model)| model).collect();
    for (key, model) in models_of(configs.after).filter(|entry| !before.contains(entry)) {
        if !rule.may_use(model, &named) {
            let known = rule.models.as_ref().map_or_else(|| named.join(", "), |patterns| patterns.join(", "));
            return Err(Kind::Invalid
                .because(format!("config: {key}: this tenant may not use the model {model:?}"))
                .hint(format!(
                    "it may use: {known}; an operator can allow others by `models` of the tenant"
                )));
        }
    }
    Ok(())
}

/// Checks the budget that a tenant asks for against the operator's.
pub(crate) fn check_budget(asked: &Budget, operator: &Budget) -> Result<(), ApiError> {
    let json = |budget: &Budget| serde_json::to_value(budget).unwrap_or_default();
    let (asked, operator) = (json(asked), json(operator));
    for (scope, limits) in asked.as_object().into_iter().flatten() {
        for (measure, asked) in limits.as_object().into_iter().flatten() {
            let bound = &operator[scope][measure];
            if bound.as_f64() < asked.as_f64() && !bound.is_null() {
                return Err(above(&format!("budget.{scope}.{measure}"), asked, bound));
            }
        }
    }
    Ok(())
}

/// Checks every marked key in `part` of the schema `root`.
fn check_bounds(
    root: &Value,
    part: &Value,
    path: &str,
    [bound, before, after]: [&Value; 3],
) -> Result<(), ApiError> {
    for (name, field) in part["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        let [bound, before, after] = [bound, before, after].map(|config| &config[name]);
        let target = field["$ref"].as_str().and_then(|pointer| root.pointer(pointer.trim_start_matches('#')));
        let target = target.unwrap_or(field);
        if field[BOUND] == true {
            let is_above = || rank(target, bound).is_some_and(|rank| rank < rank_or_max(target, after));
            if before != after && is_above() {
                return Err(above(&path, after, bound));
            }
            if before != after
                && after.as_object().into_iter().flatten().any(|(key, value)| bound.get(key) != Some(value))
            {
                let hint = "remove it, or ask an operator to set it";
                return Err(Kind::Invalid
                    .because(format!("{path}: only an operator may set this"))
                    .hint(hint));
            }
        } else if bound.is_object() || after.is_object() {
            check_bounds(root, target, &path, [bound, before, after])?;
        }
    }
    Ok(())
}

/// Returns the place of a value among others: a number itself, and a name by its place in the list of the schema.
fn rank(schema: &Value, value: &Value) -> Option<f64> {
    let listed = |key: &str| schema[key].as_array().into_iter().flatten();
    let mut names = listed("oneOf").map(|choice| &choice["const"]).chain(listed("enum"));
    let place =
        || names.position(|name| name == value).and_then(|place| u32::try_from(place).ok()).map(f64::from);
    value.as_f64().or_else(place)
}

/// A value that is not set has no limit.
fn rank_or_max(schema: &Value, value: &Value) -> f64 {
    rank(schema, value).unwrap_or(f64::INFINITY)
}

fn above(key: &str, asked: &Value, bound: &Value) -> ApiError {
    let detail = match asked.is_null() {
        true => format!("{key}: it must be set, because the operator's bound is {bound}"),
        false => format!("{key}: it is {asked}, above the operator's bound {bound}"),
    };
    Kind::Invalid.because(detail).hint(format!("use at most {bound}, or ask an operator to raise it"))
}
