//! Model that answered the lines of a batch.

/// Model of all lines of a batch so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CommonModel {
    /// No model has answered a line.
    None,
    /// Every line that has a model has this one.
    One(String),
    /// Lines have different models.
    Several,
}

impl CommonModel {
    /// Reads the column of a batch. Different models are stored as an empty text.
    pub(super) fn of_column(column: Option<String>) -> Self {
        match column {
            None => Self::None,
            Some(model) if model.is_empty() => Self::Several,
            Some(model) => Self::One(model),
        }
    }

    /// Adds the model of a line, if it has one.
    pub(super) fn with(self, model: Option<&str>) -> Self {
        match (self, model.filter(|model| !model.is_empty())) {
            (before, None) => before,
            (Self::None, Some(model)) => Self::One(model.to_owned()),
            (Self::One(known), Some(model)) if known == model => Self::One(known),
            (Self::One(_) | Self::Several, Some(_)) => Self::Several,
        }
    }

    /// Returns the model, if there is exactly one.
    pub(super) fn one(self) -> Option<String> {
        match self {
            Self::One(model) => Some(model),
            Self::None | Self::Several => None,
        }
    }

    /// Returns the content of the column.
    pub(super) fn into_column(self) -> Option<String> {
        match self {
            Self::None => None,
            Self::One(model) => Some(model),
            Self::Several => Some(String::new()),
        }
    }
}

#[test]
fn one_model_is_reported_and_several_are_not() {
    let of = |models: &[Option<&str>]| {
        let add = |column: Option<String>, model: &Option<&str>| {
            CommonModel::of_column(column).with(*model).into_column()
        };
        CommonModel::of_column(models.iter().fold(None, add)).one()
    };
    assert_eq!(of(&[None]), None);
    assert_eq!(of(&[Some("a"), None, Some("a")]).as_deref(), Some("a"));
    assert_eq!(of(&[Some("a"), Some("b"), Some("a")]), None);
}
