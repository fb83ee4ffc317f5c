// The tests of the generated bindings of test_msgs, which has every kind of field. The modules are laid
// out as the ros-env crate lays them out, but without its allowances: warnings are errors here.

use std::borrow::Cow;

use rosidl_runtime_rs::{Action, Message, RmwMessage, Service};

use crate::test_msgs::{action, msg, srv};

/// Through the middleware's form and back, by moving and by copying.
fn survives<T: Message + PartialEq>(message: T) {
    let copied = T::into_rmw_message(Cow::Borrowed(&message)).into_owned();
    assert_eq!(T::from_rmw_message(copied.clone()), message);
    let moved = T::into_rmw_message(Cow::Owned(message.clone())).into_owned();
    assert_eq!(T::from_rmw_message(moved), message);
    // Sequences of the C library's own making.
    assert_eq!(T::from_rmw_message(copied.clone()), message);
    drop(copied);
}

#[test]
fn defaults_are_those_of_the_definition() {
    let defaults = msg::Defaults::default();
    assert!(defaults.bool_value);
    assert_eq!(defaults.byte_value, 50);
    assert_eq!(defaults.float32_value, 1.125);
    assert_eq!(defaults.int8_value, -50);
    assert_eq!(defaults.uint64_value, 50_000_000);
    let arrays = msg::Arrays::default();
    assert_eq!(arrays.int64_values_default, [0, i64::MAX, i64::MIN]);
    assert_eq!(arrays.string_values_default, ["", "max value", "min value"]);
    assert_eq!(arrays.defaults_values[2].int16_value, -1000);
    let sequences = msg::UnboundedSequences::default();
    assert_eq!(sequences.uint64_values_default, [0, 1, u64::MAX]);
    assert_eq!(sequences.string_values_default, ["", "max value", "min value"]);
    assert!(sequences.basic_types_values.is_empty());
    let bounded = msg::BoundedSequences::default();
    assert_eq!(bounded.float64_values_default.as_slice(), [3.1415, 0.0, -3.1415]);
    let strings = msg::Strings::default();
    assert_eq!(strings.string_value_default4, "Hello'world!");
    assert_eq!(strings.bounded_string_value_default5.to_string(), "Hello\"world!");
    assert_eq!(msg::WStrings::default().wstring_value_default3, "ハローワールド");
}

#[test]
fn constants_belong_to_their_message() {
    assert!(msg::Constants::BOOL_CONST);
    assert_eq!(msg::Constants::BYTE_CONST, 50);
    assert_eq!(msg::Constants::CHAR_CONST, 100);
    assert_eq!(msg::Constants::FLOAT32_CONST, 1.125f32);
    assert_eq!(msg::Constants::INT64_CONST, -40_000_000);
    assert_eq!(msg::Strings::STRING_CONST, "Hello world!");
    assert_eq!(msg::rmw::Constants::UINT64_CONST, 50_000_000);
}

#[test]
fn every_message_survives_with_its_defaults() {
    survives(msg::Arrays::default());
    survives(msg::BasicTypes::default());
    survives(msg::BoundedPlainSequences::default());
    survives(msg::BoundedSequences::default());
    survives(msg::Builtins::default());
    survives(msg::Constants::default());
    survives(msg::Defaults::default());
    survives(msg::Empty::default());
    survives(msg::MultiNested::default());
    survives(msg::Nested::default());
    survives(msg::Strings::default());
    survives(msg::UnboundedSequences::default());
    survives(msg::WStrings::default());
    survives(srv::Arrays_Request::default());
    survives(srv::BasicTypes_Response::default());
    survives(srv::Empty_Request::default());
    survives(action::Fibonacci_Goal::default());
    survives(action::NestedMessage_Result::default());
}

#[test]
fn every_kind_of_content_survives() {
    let basic = msg::BasicTypes {
        bool_value: true,
        byte_value: 255,
        float64_value: f64::MIN_POSITIVE,
        int64_value: i64::MIN,
        uint64_value: u64::MAX,
        ..Default::default()
    };
    let mut sequences = msg::UnboundedSequences {
        bool_values: vec![true, false],
        float32_values: vec![f32::INFINITY, -0.0],
        string_values: vec!["".into(), "Hellö ワ".into()],
        basic_types_values: vec![basic.clone(); 3],
        defaults_values: vec![Default::default()],
        ..Default::default()
    };
    survives(sequences.clone());
    sequences.uint8_values = vec![7; 100_000];
    survives(sequences);

    let mut arrays = msg::Arrays::default();
    arrays.string_values = ["a".into(), "".into(), "c".into()];
    arrays.basic_types_values[1] = basic.clone();
    survives(arrays.clone());

    let rmw_basic = msg::BasicTypes::into_rmw_message(Cow::Owned(basic.clone())).into_owned();
    let mut bounded = msg::BoundedSequences::default();
    bounded.int32_values = vec![1, 2, 3].try_into().unwrap();
    bounded.string_values = vec!["x".into()].try_into().unwrap();
    bounded.basic_types_values = vec![rmw_basic; 2].try_into().unwrap();
    survives(bounded.clone());

    let mut wide = msg::WStrings::default();
    wide.wstring_value = "ハロー".into();
    wide.array_of_wstrings = ["a".into(), "ö".into(), "ワ".into()];
    wide.unbounded_sequence_of_wstrings = vec!["b".into(); 2];
    survives(wide);

    let mut strings = msg::Strings::default();
    strings.bounded_string_value = "exactly 22 characters!".try_into().unwrap();
    survives(strings);

    let mut nested = msg::MultiNested::default();
    nested.array_of_arrays[1] = arrays.clone();
    nested.unbounded_sequence_of_arrays = vec![arrays];
    nested.bounded_sequence_of_bounded_sequences =
        vec![msg::BoundedSequences::into_rmw_message(Cow::Owned(bounded)).into_owned()]
            .try_into()
            .unwrap();
    survives(nested);
}

#[test]
fn bounds_are_kept() {
    assert!(rosidl_runtime_rs::BoundedSequence::<i32, 3>::try_from(vec![1, 2, 3, 4]).is_err());
    assert!(rosidl_runtime_rs::BoundedString::<22>::try_from("one more than 22 chars!").is_err());
}

#[test]
fn names_and_type_supports_are_there() {
    assert_eq!(msg::rmw::Arrays::TYPE_NAME, "test_msgs/msg/Arrays");
    assert_eq!(
        action::rmw::NestedMessage_SendGoal_Request::TYPE_NAME,
        "test_msgs/action/NestedMessage_SendGoal_Request"
    );
    assert!(!msg::rmw::Arrays::get_type_support().is_null());
    assert!(!<srv::Arrays as Service>::get_type_support().is_null());
    assert!(!<srv::rmw::Empty as Service>::get_type_support().is_null());
    assert!(!<action::Fibonacci as Action>::get_type_support().is_null());
    assert!(!<action::NestedMessage_GetResult as Service>::get_type_support().is_null());
}

#[test]
fn the_parts_of_an_action_come_apart_as_they_were_put_together() {
    type Fibonacci = action::Fibonacci;
    let id: [u8; 16] = std::array::from_fn(|index| index as u8);
    let goal = action::rmw::Fibonacci_Goal { order: 5 };
    let request = Fibonacci::create_goal_request(&id, goal.clone());
    assert_eq!(Fibonacci::split_goal_request(request), (id, goal));
    let response = Fibonacci::create_goal_response(true, (7, 8));
    assert!(Fibonacci::get_goal_response_accepted(&response));
    assert_eq!(Fibonacci::get_goal_response_stamp(&response), (7, 8));
    let feedback = action::rmw::Fibonacci_Feedback { sequence: vec![1, 1].into() };
    let message = Fibonacci::create_feedback_message(&id, feedback.clone());
    assert_eq!(Fibonacci::split_feedback_message(message), (id, feedback));
    let request = Fibonacci::create_result_request(&id);
    assert_eq!(Fibonacci::get_result_request_uuid(&request), &id);
    let result = action::rmw::Fibonacci_Result { sequence: vec![1, 1, 2].into() };
    let response = Fibonacci::create_result_response(4, result.clone());
    assert_eq!(Fibonacci::split_result_response(response), (4, result));
}
