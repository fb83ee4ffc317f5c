"""Actions: the marker types that tie the goal, its services and its feedback together."""

from .names import c_name

# The packages whose types the generic part of every action uses.
ACTION_DEPENDENCIES = ('action_msgs', 'builtin_interfaces', 'unique_identifier_msgs')


def action(definition, dependencies):
    """Return the lines of an action's type."""
    type_ = definition.namespaced_type
    dependencies.update(ACTION_DEPENDENCIES)
    text = ACTION.replace('@PACKAGE@', type_.namespaces[0])
    return text.replace('@C@', c_name(type_)).replace('@NAME@', type_.name).splitlines()


ACTION = '''\
#[link(name = "@PACKAGE@__rosidl_typesupport_c")]
extern "C" {
    fn rosidl_typesupport_c__get_action_type_support_handle__@C@() -> *const std::ffi::c_void;
}

#[allow(non_camel_case_types)]
pub struct @NAME@;

impl rosidl_runtime_rs::Action for @NAME@ {
    type Goal = @NAME@_Goal;
    type Result = @NAME@_Result;
    type Feedback = @NAME@_Feedback;
    type FeedbackMessage = @NAME@_FeedbackMessage;
    type SendGoalService = @NAME@_SendGoal;
    type CancelGoalService = action_msgs::srv::rmw::CancelGoal;
    type GetResultService = @NAME@_GetResult;

    fn get_type_support() -> *const std::ffi::c_void {
        // SAFETY: there is nothing to be held before the call.
        unsafe { rosidl_typesupport_c__get_action_type_support_handle__@C@() }
    }

    fn create_goal_request(goal_id: &[u8; 16], goal: rmw::@NAME@_Goal) -> rmw::@NAME@_SendGoal_Request {
        let goal_id = unique_identifier_msgs::msg::rmw::UUID { uuid: *goal_id };
        rmw::@NAME@_SendGoal_Request { goal_id, goal }
    }

    fn split_goal_request(request: rmw::@NAME@_SendGoal_Request) -> ([u8; 16], rmw::@NAME@_Goal) {
        (request.goal_id.uuid, request.goal)
    }

    fn create_goal_response(accepted: bool, (sec, nanosec): (i32, u32)) -> rmw::@NAME@_SendGoal_Response {
        let stamp = builtin_interfaces::msg::rmw::Time { sec, nanosec };
        rmw::@NAME@_SendGoal_Response { accepted, stamp }
    }

    fn get_goal_response_accepted(response: &rmw::@NAME@_SendGoal_Response) -> bool {
        response.accepted
    }

    fn get_goal_response_stamp(response: &rmw::@NAME@_SendGoal_Response) -> (i32, u32) {
        (response.stamp.sec, response.stamp.nanosec)
    }

    fn create_feedback_message(goal_id: &[u8; 16], feedback: rmw::@NAME@_Feedback) -> rmw::@NAME@_FeedbackMessage {
        let goal_id = unique_identifier_msgs::msg::rmw::UUID { uuid: *goal_id };
        rmw::@NAME@_FeedbackMessage { goal_id, feedback }
    }

    fn split_feedback_message(message: rmw::@NAME@_FeedbackMessage) -> ([u8; 16], rmw::@NAME@_Feedback) {
        (message.goal_id.uuid, message.feedback)
    }

    fn create_result_request(goal_id: &[u8; 16]) -> rmw::@NAME@_GetResult_Request {
        let goal_id = unique_identifier_msgs::msg::rmw::UUID { uuid: *goal_id };
        rmw::@NAME@_GetResult_Request { goal_id }
    }

    fn get_result_request_uuid(request: &rmw::@NAME@_GetResult_Request) -> &[u8; 16] {
        &request.goal_id.uuid
    }

    fn create_result_response(status: i8, result: rmw::@NAME@_Result) -> rmw::@NAME@_GetResult_Response {
        rmw::@NAME@_GetResult_Response { status, result }
    }

    fn split_result_response(response: rmw::@NAME@_GetResult_Response) -> (i8, rmw::@NAME@_Result) {
        (response.status, response.result)
    }
}
'''
