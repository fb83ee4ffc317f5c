"""The executors against independent foreign servers: what starts, what is refused, how it stops."""

import math
import os
import signal
import time
import uuid

from conftest import action_client
from conftest import assert_stays
from conftest import wait_until
from executor_surroundings import Client
from executor_surroundings import CUP
from executor_surroundings import errors
from executor_surroundings import foreign_server
from executor_surroundings import nav2  # noqa: F401
from executor_surroundings import robot  # noqa: F401
from executor_surroundings import start
from executor_surroundings import TOKEN
import pytest

pytest.importorskip('rclpy')

UNKNOWN, ACCEPTED, EXECUTING, CANCELING, SUCCEEDED, CANCELED, ABORTED = range(7)


@pytest.fixture(autouse=True)
def calm(robot):
    """Begin each test with a robot in order."""
    robot.calm()


@pytest.fixture
def navigation(nav2, processes, robot, tmp_path):
    """Give a running navigation_skills_node and its client."""
    client = Client(robot, 'navigation_skills_node')
    client.forget()
    client.process = start(
        processes, 'navigation_skills_node', tmp_path, 'acknowledge_timeout:=0.5',
        'lost_timeout:=1.5', 'server_timeout:=0.3')
    client.wait()
    return client


def test_a_command_runs_once_and_is_held_until_it_is_settled(navigation, nav2, robot):
    nav2.run_for = 0.3
    goal = navigation.goal()
    answer = navigation.run(goal)
    assert answer.status == SUCCEEDED, answer.result.error_msg
    status = answer.result.status
    assert (status.state, status.control_end) == (status.STATE_ENDED, status.END_COMPLETED)
    assert status.run_id and list(status.resources) == ['base']
    request = nav2.requests[0].pose
    assert (request.header.frame_id, request.pose.position.x) == ('map', 1.0)
    assert request.pose.orientation.z == pytest.approx(math.sin(0.125))

    # The run was told: start before, end after, with the bound arguments; the base was declared.
    events = [e for e in robot.runs if e.run_id == status.run_id]
    assert [e.event for e in events] == [1, 3]
    assert '"x":1.0' in events[0].arguments_json
    declared = [d for d in robot.declared if d.run_id == status.run_id]
    assert declared[0].active and not declared[-1].active
    assert declared[0].fencing_token == TOKEN

    # Every goal that was sent stands in the journal under its UUID.
    found = navigation.query(goal.command.command_id)
    calls = found.foreign_calls
    assert [uuid.UUID(bytes=bytes(c.goal_id.uuid)) for c in calls] == nav2.started
    assert calls[0].action_name == '/navigate_to_pose' and calls[0].status == SUCCEEDED
    assert 0 < calls[0].sent_sequence < calls[0].ended_sequence

    # The same again: the same answer, nothing is started.
    again = navigation.run(goal)
    assert again.result.status.run_id == status.run_id and again.status == SUCCEEDED
    assert len(nav2.started) == 1

    # It holds the base until it is settled.
    busy = navigation.run(navigation.goal())
    assert busy.result.error_code == errors().RESOURCE_BUSY
    assert goal.command.command_id in busy.result.error_msg
    assert navigation.settle(goal.command.command_id, token=TOKEN - 1).error_code == 10106
    assert navigation.settle(goal.command.command_id, final_state=9).error_code == 10122
    assert navigation.settle('nobody').error_code == 10120
    assert navigation.settle(goal.command.command_id).state == 'SETTLED'
    assert navigation.settle(goal.command.command_id).error_code == 0, 'the same again'
    assert navigation.settle(goal.command.command_id, final_state=2).error_code == 10121
    assert navigation.run(navigation.goal()).status == SUCCEEDED


def test_refusals_start_nothing_and_say_why(navigation, nav2, robot):
    from builtin_interfaces.msg import Duration
    from embodied_harness.msg import ExecutorBeacon, TargetBinding

    def refused(code, goal, *words):
        answer = navigation.run(goal)
        assert answer.status == ABORTED
        assert answer.result.error_code == code, answer.result.error_msg
        assert answer.result.status.run_id == ''
        for word in words:
            assert word in answer.result.error_msg
        assert len(answer.result.error_msg) < 1000

    e = errors()
    refused(e.WRONG_ROBOT, navigation.goal(robot_id='other'), 'other', 'robot')
    refused(e.UNKNOWN_SKILL, navigation.goal(skill='fly'), 'fly', 'navigate_to')
    refused(e.INVALID_ARGUMENTS, navigation.goal(arguments={'pose': {'x': 1.0}}))
    refused(e.INVALID_ARGUMENTS, navigation.goal(
        arguments={'pose': {'frame_id': 'moon', 'x': 0.0, 'y': 0.0, 'yaw': 0.0}}), 'moon')
    refused(e.INVALID_COMMAND, navigation.goal(command_id='a b'))
    refused(e.INVALID_COMMAND, navigation.goal(schema_version=2))
    goal = navigation.goal()
    goal.command.arguments_json = '{"pose": NaN}'
    refused(e.INVALID_COMMAND, goal, 'arguments_json')
    goal = navigation.goal()
    goal.command.digest = '0' * 64
    refused(e.DIGEST_MISMATCH, goal)
    target = TargetBinding(argument='target', ref='cup_1', class_name='cup', kind=6,
                           frame_id='map')
    target.pose.orientation.w = 1.0
    target.pose.position.x = math.nan
    # NaN has no canonical form here; the executor hashes null.
    goal = navigation.goal(skill='navigate_to', arguments={'target': 'cup_1'}, targets=[target])
    answer = navigation.run(goal)
    assert answer.result.error_code in (e.INVALID_ARGUMENTS, e.DIGEST_MISMATCH)
    goal = navigation.goal(skill='navigate_to', arguments={'target': 'cup_1'})
    refused(e.INVALID_ARGUMENTS, goal, 'target')

    goal = navigation.goal()
    goal.envelope.fencing_token = TOKEN - 1
    refused(e.OLD_TOKEN, goal, str(TOKEN))
    goal = navigation.goal()
    goal.envelope.fencing_token = 0
    refused(e.NO_LEASE, goal)
    goal = navigation.goal()
    goal.envelope.beacon = ExecutorBeacon()
    refused(e.NO_BEACON, goal)
    goal = navigation.goal()
    goal.envelope.beacon.boot_id = 'earlier'
    refused(e.EXPIRED_COMMAND, goal, 'restarted')
    goal = navigation.goal()
    goal.envelope.start_within = Duration(sec=0, nanosec=1000)
    refused(e.EXPIRED_COMMAND, goal)
    goal = navigation.goal()
    goal.envelope.start_within = Duration(sec=-1)
    refused(e.EXPIRED_COMMAND, goal)
    goal = navigation.goal()
    goal.envelope.start_within = Duration(sec=50)
    refused(e.INVALID_COMMAND, goal, 'never refreshed')

    # A refusal is kept: the same command is refused again, though the reason is gone.
    goal = navigation.goal()
    robot.lease_is_live = False
    robot._tell_lease()
    wait_until(lambda: navigation.run(navigation.goal()).result.error_code == e.NO_LEASE, 5,
               'the lease to end')
    refused(e.NO_LEASE, goal)
    robot.lease_is_live = True
    robot._tell_lease()
    refused(e.NO_LEASE, goal)
    wait_until(lambda: navigation.run(navigation.goal(skill='wait', arguments={'duration': 0.0}))
               .status == SUCCEEDED, 5, 'the lease to live')

    # The id is known with another digest.
    known = navigation.goal(skill='wait', arguments={'duration': 0.0})
    assert navigation.run(known).status == SUCCEEDED
    other = navigation.goal(skill='wait', arguments={'duration': 0.1},
                            command_id=known.command.command_id)
    refused(e.COMMAND_ID_CONFLICT, other, known.command.digest)

    robot.stop_latched = True
    robot._tell_lease()
    wait_until(lambda: navigation.run(navigation.goal()).result.error_code == e.STOP_LATCHED, 5,
               'the stop to be heard')
    assert nav2.started == []
    assert navigation.process.is_running()


def test_a_cancel_is_confirmed_by_measured_standstill(navigation, nav2, robot):
    nav2.run_for = 30.0
    goal = navigation.goal()
    handle = navigation.send(goal)
    wait_until(lambda: nav2.started and robot.speed > 0, 10, 'the base to move')
    # From 0.4 m/s at 0.25 m/s² the base needs 1.6 s to stand.
    robot.braking = 0.25
    asked = time.time()
    cancel = handle.cancel_goal_async()
    wait_until(cancel.done, 2, 'the answer to the cancel request')
    assert robot.speed > 0, 'answered at once, not when it stands'
    answer = navigation.result(handle)
    stood = robot.stood_at
    assert answer.status == CANCELED, answer.result.error_msg
    status = answer.result.status
    assert status.control_end == status.END_CANCELED
    assert status.stop_stage == status.STOP_CONFIRMED
    confirmed = status.stop_confirmed_at.sec + 1e-9 * status.stop_confirmed_at.nanosec
    assert stood is not None and confirmed >= stood, 'confirmed only after it stood'
    assert confirmed - asked > 1.5
    assert nav2.ends == ['canceled']
    # Canceled is not settled: the base is held.
    assert navigation.run(navigation.goal()).result.error_code == errors().RESOURCE_BUSY
    assert navigation.settle(goal.command.command_id, final_state=3).error_code == 0


def test_a_base_that_does_not_stop_is_not_called_canceled(navigation, nav2, robot):
    from builtin_interfaces.msg import Duration
    nav2.run_for = 30.0
    handle = navigation.send(navigation.goal(stop_timeout=Duration(sec=1)))
    wait_until(lambda: nav2.started and robot.speed > 0, 10, 'the base to move')
    robot.braking = 0.0
    handle.cancel_goal_async()
    answer = navigation.result(handle)
    assert answer.status == ABORTED
    assert answer.result.error_code == errors().STOP_UNCONFIRMED
    assert '0.400' in answer.result.error_msg and '1.0 s' in answer.result.error_msg
    status = answer.result.status
    assert status.control_end == status.END_LOST
    assert status.stop_stage == status.STOP_UNCONFIRMED
    assert list(status.resources) == ['base'], 'unknown holds what it claimed'


def test_a_missing_server_is_named_with_what_to_do(processes, robot, tmp_path):
    navigation = Client(robot, 'navigation_skills_node')
    navigation.forget()
    start(processes, 'navigation_skills_node', tmp_path, 'server_timeout:=0.3',
          'navigate_to_pose_action:=nowhere/navigate_to_pose')
    navigation.wait()
    answer = navigation.run(navigation.goal())
    assert answer.result.error_code == errors().SERVER_UNAVAILABLE
    for word in ('/nowhere/navigate_to_pose', 'Nav2', 'navigate_to_pose_action', 'Nothing was moved'):
        assert word in answer.result.error_msg


def test_failures_of_nav2_are_told_with_its_code(navigation, nav2):
    nav2.error = 206
    answer = navigation.run(navigation.goal())
    assert answer.status == ABORTED
    assert answer.result.error_code == errors().GOAL_OCCUPIED
    assert '206' in answer.result.error_msg
    assert answer.result.status.native_outcome.code == 206
    assert answer.result.status.control_end == answer.result.status.END_ABORTED


def test_a_rejected_goal_moves_nothing(navigation, nav2):
    nav2.accept = False
    answer = navigation.run(navigation.goal())
    assert answer.result.error_code == errors().NAVIGATION_REJECTED
    assert nav2.started == []


def test_a_lost_acknowledgement_starts_nothing_twice(navigation, nav2):
    nav2.run_for = 0.5
    nav2.acknowledge.clear()
    goal = navigation.goal()
    handle = navigation.send(goal)
    wait_until(lambda: nav2.open, 10, 'the goal at Nav2')
    # The acknowledgement comes after the executor has given up waiting for it (0.5 s), and before it has
    # given up learning about the goal (1.5 s more).
    assert_stays(lambda: not nav2.started, 0.9, 'no acknowledgement')
    nav2.acknowledge.set()
    answer = navigation.result(handle)
    assert answer.status == SUCCEEDED, answer.result.error_msg
    assert len(nav2.started) == 1


def test_an_acknowledgement_that_never_comes_is_unknown_and_canceled(navigation, nav2):
    nav2.run_for = 30.0
    nav2.acknowledge.clear()
    goal = navigation.goal()
    answer = navigation.run(goal)
    assert answer.result.error_code == errors().ACKNOWLEDGEMENT_LOST
    assert answer.result.status.control_end == answer.result.status.END_LOST
    assert navigation.run(navigation.goal()).result.error_code == errors().RESOURCE_BUSY
    # When the server takes the goal at last, it is canceled again.
    nav2.acknowledge.set()
    wait_until(lambda: nav2.ends == ['canceled'], 5, 'the late goal to be canceled')


def test_a_cancel_before_the_acknowledgement_reaches_the_goal(navigation, nav2, robot):
    nav2.run_for = 30.0
    nav2.acknowledge.clear()
    handle = navigation.send(navigation.goal())
    wait_until(lambda: nav2.open, 10, 'the goal at Nav2')
    cancel = handle.cancel_goal_async()
    wait_until(cancel.done, 5, 'the answer to the cancel request')
    assert not nav2.started
    nav2.acknowledge.set()
    answer = navigation.result(handle)
    assert answer.status == CANCELED, answer.result.error_msg
    assert nav2.ends == ['canceled'] and robot.speed == 0.0


def drive_by_hand(nav2, robot):
    """Drive as an operator does; return the goal's handle and id."""
    from nav2_msgs.action import NavigateToPose
    other = action_client(robot.node, NavigateToPose, 'navigate_to_pose', robot.group)
    assert other.wait_for_server(timeout_sec=10)
    nav2.run_for = 30.0
    future = other.send_goal_async(NavigateToPose.Goal())
    operators = wait_until(lambda: future.done() and future.result(), 10, 'the operator\'s goal')
    wait_until(lambda: nav2.started, 10, 'the operator to drive')
    nav2.run_for = 0.0
    return operators, str(uuid.UUID(bytes=bytes(operators.goal_id.uuid)))


def test_a_goal_that_is_not_ours_is_left_alone(navigation, nav2, robot):
    operators, operators_id = drive_by_hand(nav2, robot)
    answer = wait_until(lambda: navigation.busy(navigation.goal()), 10, 'the operator\'s goal to be seen')
    assert operators_id in answer.result.error_msg
    assert 'canceled' not in nav2.ends
    operators.cancel_goal_async()
    wait_until(lambda: 'canceled' in nav2.ends, 10, 'the operator to cancel')


def test_a_latched_stop_and_an_expired_lease_stop_what_runs(navigation, nav2, robot):
    for spoil, code in (('stop_latched', 'STOP_LATCHED'), ('lease_is_live', 'NO_LEASE')):
        robot.calm()
        wait_until(lambda: navigation.run(navigation.goal('wait', {'duration': 0.0})).status
                   == SUCCEEDED, 10, 'everything in order')
        nav2.run_for = 30.0
        nav2.started.clear()
        goal = navigation.goal()
        handle = navigation.send(goal)
        wait_until(lambda: nav2.started and robot.speed > 0, 10, 'the base to move')
        setattr(robot, spoil, spoil == 'stop_latched')
        answer = navigation.result(handle)
        assert answer.result.error_code == getattr(errors(), code), answer.result.error_msg
        assert answer.result.status.stop_stage == answer.result.status.STOP_CONFIRMED
        assert robot.speed == 0.0
        assert navigation.settle(goal.command.command_id, 3, by='Ann', reason='seen').error_code == 0


def test_a_killed_executor_never_starts_twice(nav2, processes, robot, tmp_path):
    client = Client(robot, 'navigation_skills_node')
    client.forget()
    first = start(processes, 'navigation_skills_node', tmp_path)
    client.wait()
    nav2.run_for = 30.0
    goal = client.goal()
    client.send(goal)
    wait_until(lambda: nav2.started and robot.speed > 0, 10, 'the base to move')
    boot = robot.beacons[client.name].boot_id
    os.kill(first.pid, signal.SIGKILL)
    assert first.wait() == -signal.SIGKILL

    client.forget()
    second = start(processes, 'navigation_skills_node', tmp_path)
    client.wait()
    assert robot.beacons[client.name].boot_id != boot
    found = wait_until(
        lambda: (lambda q: q if q.error_code == 0 and q.statuses[0].state == 6 else None)(
            client.query(goal.command.command_id)), 15, 'the run to be brought to its end')
    status = found.statuses[0]
    assert (status.control_end, status.stop_stage) == (
        status.END_ABORTED, status.STOP_CONFIRMED), status.error_msg
    assert nav2.ends == ['canceled'] and robot.speed == 0.0
    # The same command again, as an issuer would that knows no better: its end, no second start.
    again = client.run(goal)
    assert again.result.status.run_id == status.run_id
    assert again.result.status.control_end == status.END_ABORTED
    assert len(nav2.started) == 1
    # What was made for the earlier life has expired.
    late = client.goal()
    late.envelope.beacon.boot_id = boot
    assert client.run(late).result.error_code == errors().EXPIRED_COMMAND
    assert client.settle(goal.command.command_id, final_state=2).error_code == 0
    nav2.run_for = 0.1
    assert client.run(client.goal()).status == SUCCEEDED
    assert second.is_running()


def test_two_executors_never_share_a_journal(processes, robot, navigation, tmp_path):
    second = start(processes, 'navigation_skills_node', tmp_path)
    assert second.wait() != 0
    assert 'in use by another process' in second.output()


def test_a_shutdown_stops_what_moves(navigation, nav2, robot):
    nav2.run_for = 30.0
    navigation.send(navigation.goal())
    wait_until(lambda: nav2.started and robot.speed > 0, 10, 'the base to move')
    navigation.process.signal(signal.SIGTERM)
    assert navigation.process.wait() == 0
    assert nav2.ends == ['canceled'] and robot.speed == 0.0
    assert not robot.catalogs[navigation.name].skills, 'the skills are withdrawn'


@pytest.fixture
def arm(robot):
    """Give MoveIt 2 and a gripper."""
    from control_msgs.action import FollowJointTrajectory, GripperCommand
    from moveit_msgs.action import MoveGroup

    class Arm:
        move = foreign_server(robot, MoveGroup, 'move_action', 'arm')
        gripper = foreign_server(
            robot, GripperCommand, 'gripper_controller/gripper_cmd', 'gripper')
        head = foreign_server(
            robot, FollowJointTrajectory, 'head_controller/follow_joint_trajectory', 'head')
    yield Arm
    for server in (Arm.move, Arm.gripper, Arm.head):
        server.calm()


@pytest.fixture
def manipulation(arm, processes, robot, tmp_path):
    """Give a running manipulation_skills_node and its client."""
    client = Client(robot, 'manipulation_skills_node')
    client.forget()
    client.process = start(
        processes, 'manipulation_skills_node', tmp_path, 'check_preconditions:=false',
        'server_timeout:=0.3')
    client.wait()
    return client


def cup(argument='object', x=CUP[0]):
    """Return a binding of a cup on a table before the robot, which stands in the map's origin."""
    from embodied_harness.msg import TargetBinding
    target = TargetBinding(argument=argument, ref='cup_1', class_name='cup', kind=6, version=2,
                           frame_id='map', support='table_1')
    target.pose.position.x, target.pose.position.z = x, CUP[2]
    target.pose.orientation.w = 1.0
    target.size.x = target.size.y = 0.08
    target.size.z = 0.1
    target.support_pose.position.x, target.support_pose.position.z = 0.85, 0.37
    target.support_pose.orientation.w = 1.0
    target.support_size.x, target.support_size.y, target.support_size.z = 0.9, 0.7, 0.74
    return target


def test_a_pick_sends_its_sub_goals_in_order(manipulation, arm, robot):
    goal = manipulation.goal('pick', {'object': 'cup_1'}, targets=[cup()])
    answer = manipulation.run(goal)
    assert answer.status == SUCCEEDED, answer.result.error_msg
    names = [c.sub_goal for c in manipulation.query(goal.command.command_id).foreign_calls]
    # Looking without moving is no goal of anybody.
    assert names == ['look', 'open', 'pre_grasp', 'approach', 'close', 'lift', 'carry']
    head = arm.head.requests[0].trajectory
    assert sorted(head.joint_names) == ['head_pan_joint', 'head_tilt_joint']
    pre_grasp, approach, lift, carry = (r.request for r in arm.move.requests)
    position = pre_grasp.goal_constraints[0].position_constraints[0]
    assert (position.header.frame_id, position.link_name) == ('base_link', 'gripper_tcp')
    assert position.constraint_region.primitive_poses[0].position.x == pytest.approx(0.55)
    assert (approach.pipeline_id, approach.planner_id) == ('pilz_industrial_motion_planner', 'LIN')
    assert lift.goal_constraints[0].position_constraints[0].constraint_region.primitive_poses[
        0].position.z == pytest.approx(0.795 + 0.12)
    assert {j.joint_name for j in carry.goal_constraints[0].joint_constraints} == {
        'arm_{}_joint'.format(i) for i in range(1, 6)}
    # It was not told to move the base by itself.
    assert not robot.declared
    assert sorted(answer.result.status.resources) == ['arm', 'base', 'gripper', 'head']


class PlanningScene:
    """MoveIt's planning scene, as far as the names of things go."""

    def __init__(self, robot):
        from moveit_msgs.msg import PlanningScene
        from moveit_msgs.srv import ApplyPlanningScene, GetPlanningScene
        self.scene = PlanningScene
        self.history = []
        self.calm()
        node = robot.node
        node.create_service(
            GetPlanningScene, 'get_planning_scene', self._get, callback_group=robot.group)
        node.create_service(
            ApplyPlanningScene, 'apply_planning_scene', self._apply, callback_group=robot.group)

    def calm(self):
        """Begin anew, with something of an operator's and something that was left behind."""
        self.world = {'operators_box', 'harness/left_behind'}
        self.attached = {}
        self.names = ['arm_1_link', 'harness/left_behind']
        self.rows = [[False, True], [True, False]]
        self.success = True
        self.history.clear()

    def _get(self, _, response):
        from moveit_msgs.msg import AllowedCollisionEntry, AttachedCollisionObject, CollisionObject
        scene = response.scene
        scene.world.collision_objects = [CollisionObject(id=i) for i in sorted(self.world)]
        for id_, link in self.attached.items():
            one = AttachedCollisionObject(link_name=link)
            one.object.id = id_
            scene.robot_state.attached_collision_objects.append(one)
        scene.allowed_collision_matrix.entry_names = self.names
        scene.allowed_collision_matrix.entry_values = [
            AllowedCollisionEntry(enabled=row) for row in self.rows]
        return response

    def _apply(self, request, response):
        from moveit_msgs.msg import CollisionObject
        scene = request.scene
        assert scene.is_diff and scene.robot_state.is_diff
        response.success = self.success
        if not self.success:
            return response
        for one in scene.robot_state.attached_collision_objects:
            if one.object.operation == CollisionObject.REMOVE:
                del self.attached[one.object.id]
                self.world.add(one.object.id)
            else:
                assert one.object.primitives and set(one.touch_links) == {
                    'gripper_tcp', 'arm_5_link'}
                self.world.discard(one.object.id)
                self.attached[one.object.id] = one.link_name
        for one in scene.world.collision_objects:
            if one.operation == CollisionObject.REMOVE:
                self.world.remove(one.id)
            else:
                assert one.header.frame_id == 'base_link' and one.primitives
                self.world.add(one.id)
        if scene.allowed_collision_matrix.entry_names:
            self.names = list(scene.allowed_collision_matrix.entry_names)
            self.rows = [list(r.enabled) for r in scene.allowed_collision_matrix.entry_values]
        self.history.append((sorted(self.ours()), sorted(self.attached), self.pairs()))
        return response

    def ours(self):
        """Return what of the adapter is in the world."""
        return {i for i in self.world if i.startswith('harness/')}

    def pairs(self):
        """Return the allowed contacts of what is the adapter's."""
        return {
            (a, b) for a, row in zip(self.names, self.rows) for b, allowed in zip(self.names, row)
            if allowed and a.startswith('harness/')}


@pytest.fixture
def planning_scene(robot):
    """Give a planning scene that is there from now on, and that runs before it have not used."""
    if 'planning_scene' not in robot.servers:
        robot.servers['planning_scene'] = PlanningScene(robot)
    scene = robot.servers['planning_scene']
    scene.calm()
    return scene


def test_a_pick_tells_the_planning_scene(planning_scene, manipulation, arm, robot):
    def picks():
        planning_scene.calm()
        goal = manipulation.goal('pick', {'object': 'cup_1'}, targets=[cup()])
        answer = manipulation.run(goal)
        assert answer.status == SUCCEEDED, answer.result.error_msg
        manipulation.settle(goal.command.command_id)
        return planning_scene.history
    # The services have to be discovered first; without them it works without.
    wait_until(picks, 20, 'the planning scene to be used')
    mine, table, seen = 'harness/cup_1', 'harness/table_1', '<octomap>'
    prepared, allowed, attached, lifted, carried = planning_scene.history
    assert prepared == ([mine, table], [], set()), 'what was left behind is gone'
    assert allowed == ([mine, table], [], {(mine, 'gripper_tcp'), (mine, 'arm_5_link')})
    assert attached == ([table], [mine], {(mine, table), (table, mine), (mine, seen)})
    assert lifted == ([table], [mine], set())
    assert carried == ([], [mine], set())
    assert 'operators_box' in planning_scene.world and 'arm_1_link' in planning_scene.names

    # A lift that fails with the cup between the fingers: it stays attached, and the next pick lifts it.
    planning_scene.calm()
    robot.gap, robot.effort = 0.05, 0.0
    goal = manipulation.goal('pick', {'object': 'cup_1'}, targets=[cup()])
    arm.move.requests.clear()
    arm.move.fail_at = 3
    # Long enough for the fingers' new state to arrive.
    arm.move.run_for = 0.1
    robot.gap_after_a_grasp = (0.07, 20.0)
    answer = manipulation.run(goal)
    assert answer.status == ABORTED and ' -4' in answer.result.error_msg, answer.result.error_msg
    assert planning_scene.history[-1] == ([], [mine], set())
    manipulation.settle(goal.command.command_id, 2)
    goal = manipulation.goal('pick', {'object': 'cup_1'}, targets=[cup()])
    answer = manipulation.run(goal)
    assert answer.status == SUCCEEDED, answer.result.error_msg
    names = [c.sub_goal for c in manipulation.query(goal.command.command_id).foreign_calls]
    assert names == ['lift', 'carry']
    manipulation.settle(goal.command.command_id)

    # Let go: nothing stays attached. A scene that refuses stops a pick before the arm moves.
    answer = manipulation.run(manipulation.goal('open_gripper', {}))
    assert answer.status == SUCCEEDED and not planning_scene.attached and not planning_scene.ours()
    manipulation.settle(answer.result.status.command_id)
    robot.calm()
    planning_scene.success = False
    arm.move.requests.clear()

    def refused():
        answer = manipulation.run(manipulation.goal('pick', {'object': 'cup_1'}, targets=[cup()]))
        manipulation.settle(answer.result.status.command_id)
        return answer if 'planning scene' in answer.result.error_msg else None
    wait_until(refused, 10, 'the fingers to be felt empty')
    assert not arm.move.requests


def test_a_planning_scene_that_is_not_wanted_is_left_alone(
        planning_scene, arm, processes, robot, tmp_path):
    client = Client(robot, 'manipulation_skills_node')
    client.forget()
    start(processes, 'manipulation_skills_node', tmp_path, 'check_preconditions:=false',
          'planning_scene:=false')
    client.wait()
    answer = client.run(client.goal('pick', {'object': 'cup_1'}, targets=[cup()]))
    assert answer.status == SUCCEEDED, answer.result.error_msg
    assert not planning_scene.history


def test_a_pick_never_opens_fingers_that_hold_something(manipulation, arm, robot):
    # Something that nobody here has grasped.
    robot.feel(0.06, 20.0)

    def refusal():
        answer = manipulation.run(manipulation.goal('pick', {'object': 'cup_1'}, targets=[cup()]))
        manipulation.settle(answer.result.status.command_id)
        return answer if answer.status == ABORTED else None
    # The fingers' state is a message that has to arrive first.
    answer = wait_until(refusal, 10, 'the fingers to be felt')
    assert answer.result.error_code == errors().STALE_PRECONDITION, answer.result.error_msg
    for word in ('0.060 m', '20.0 N', 'place', 'open_gripper'):
        assert word in answer.result.error_msg

    # What was grasped for a pick that did not end well is lifted, from where the tool is.
    robot.calm()
    wait_until(lambda: refusal() is None, 10, 'the fingers to be felt loose')
    arm.gripper.requests.clear()
    arm.move.requests.clear()

    def lifted():
        # Again each time: a pick that comes before the news opens the fingers.
        robot.feel(0.07, 20.0)
        goal = manipulation.goal('pick', {'object': 'cup_1'}, targets=[cup()])
        answer = manipulation.run(goal)
        assert answer.status == SUCCEEDED, answer.result.error_msg
        names = [c.sub_goal for c in manipulation.query(goal.command.command_id).foreign_calls]
        manipulation.settle(goal.command.command_id)
        return names == ['lift', 'carry']
    wait_until(lifted, 10, 'the fingers to be felt')
    lift = arm.move.requests[-2]
    assert place_of(lift) == pytest.approx((0.55, 0.0, 0.795 + 0.12))


def place_of(request):
    """Return where a goal of the arm wants the tool in base_link [m]."""
    constraint = request.request.goal_constraints[0].position_constraints[0]
    assert constraint.header.frame_id == 'base_link'
    position = constraint.constraint_region.primitive_poses[0].position
    return (position.x, position.y, position.z)


def test_a_pick_goes_where_the_object_is_seen_and_not_where_the_scene_has_it(
        manipulation, arm, robot):
    # 4 cm to the left of the scene's place; another cup is outside the gate of 15 cm.
    robot.seen = [('cup', (CUP[0], CUP[1] + 0.04, CUP[2])), ('cup', (CUP[0], -0.3, CUP[2])),
                  ('bowl', CUP)]
    answer = manipulation.run(manipulation.goal('pick', {'object': 'cup_1'}, targets=[cup()]))
    assert answer.status == SUCCEEDED, answer.result.error_msg
    approach = place_of(arm.move.requests[1])
    assert approach[:2] == pytest.approx((0.55, 0.04), abs=0.001)


@pytest.mark.parametrize('seen', [
    [],
    [('bowl', CUP)],
    [('cup', (CUP[0], 0.16, CUP[2]))],
    [('cup', (math.nan, 0.0, CUP[2]))],
], ids=['nothing', 'another thing', '16 cm away', 'not a number'])
def test_what_is_not_seen_where_it_should_be_is_not_grasped(manipulation, arm, robot, seen):
    robot.seen = seen
    answer = manipulation.run(manipulation.goal('pick', {'object': 'cup_1'}, targets=[cup()]))
    assert answer.status == ABORTED
    assert answer.result.error_code == errors().STALE_PRECONDITION, answer.result.error_msg
    for word in ('cup_1', 'Look at it again'):
        assert word in answer.result.error_msg
    assert arm.head.started and not arm.move.started and not arm.gripper.started


def test_a_head_that_cannot_turn_ends_a_pick_before_the_arm_moves(manipulation, arm):
    arm.head.accept = False
    answer = manipulation.run(manipulation.goal('pick', {'object': 'cup_1'}, targets=[cup()]))
    assert answer.result.error_code == errors().HEAD_FAILED, answer.result.error_msg
    assert not arm.move.started and not arm.gripper.started


def test_an_arm_that_cannot_reach_tries_other_grasps_and_says_so(manipulation, arm):
    arm.move.error = -31
    answer = manipulation.run(manipulation.goal('pick', {'object': 'cup_1'}, targets=[cup()]))
    assert answer.result.error_code == errors().OUT_OF_REACH
    assert '-31' in answer.result.error_msg
    assert len(arm.move.started) > 1
    assert answer.result.status.control_end == answer.result.status.END_ABORTED


def test_an_object_far_away_moves_nothing(manipulation, arm, robot):
    robot.seen = [('cup', (3.0, 0.0, CUP[2]))]

    def pick():
        answer = manipulation.run(
            manipulation.goal('pick', {'object': 'cup_1'}, targets=[cup(x=3.0)]))
        # An adapter that was just started may not have heard where the base is.
        heard = answer.result.error_code != errors().TRANSFORM_UNAVAILABLE
        return answer if heard else None
    answer = wait_until(pick, 10, 'the transform of the base')
    assert answer.result.error_code == errors().OUT_OF_REACH
    assert 'navigate_to' in answer.result.error_msg
    assert not arm.move.started and not arm.gripper.started


def test_a_canceled_arm_is_measured(manipulation, arm, robot):
    arm.move.run_for = 30.0
    handle = manipulation.send(manipulation.goal('stow', {}))
    wait_until(lambda: arm.move.started, 10, 'the arm to move')
    robot.arm_speed = 0.3
    handle.cancel_goal_async()
    wait_until(lambda: arm.move.ends == ['canceled'], 5, 'the goal to end')
    answer = handle.get_result_async()
    assert_stays(lambda: not answer.done(), 0.5, 'the cancel to be unconfirmed while the arm moves')
    robot.arm_speed = 0.0
    still = time.time()
    answer = manipulation.result(handle)
    assert answer.status == CANCELED, answer.result.error_msg
    confirmed = answer.result.status.stop_confirmed_at
    assert confirmed.sec + 1e-9 * confirmed.nanosec >= still


def test_the_base_is_not_shared_between_the_executors(
        manipulation, navigation, arm, nav2, robot):
    nav2.run_for = 30.0
    drive = navigation.goal()
    handle = navigation.send(drive)
    wait_until(lambda: nav2.started, 10, 'the base to move')

    def refusal():
        answer = manipulation.busy(manipulation.goal('pick', {'object': 'cup_1'}, targets=[cup()]))
        # Its goal may be heard of before it.
        return answer and drive.command.command_id in answer.result.error_msg
    wait_until(refusal, 10, 'the command to be seen as holding the base')
    handle.cancel_goal_async()
    navigation.result(handle)


def test_nothing_is_picked_while_somebody_drives(manipulation, arm, nav2, robot):
    operators, operators_id = drive_by_hand(nav2, robot)

    def pick():
        return manipulation.goal('pick', {'object': 'cup_1'}, targets=[cup()])
    answer = wait_until(lambda: manipulation.busy(pick()), 10, 'the operator\'s goal to be seen')
    assert operators_id in answer.result.error_msg and '/navigate_to_pose' in answer.result.error_msg
    assert 'canceled' not in nav2.ends
    operators.cancel_goal_async()
    wait_until(lambda: 'canceled' in nav2.ends, 10, 'the operator to cancel')
    arm.move.started.clear()
    wait_until(lambda: not manipulation.busy(pick()), 10, 'the base to be free')
    assert arm.move.started


@pytest.mark.parametrize('fate', ['reached', 'rejected', 'hangs'])
def test_a_drive_ends_with_a_look_at_its_target_however_that_ends(
        manipulation, navigation, arm, nav2, robot, fate):
    arm.head.accept = fate != 'rejected'
    arm.head.run_for = 60.0 if fate == 'hangs' else 0.0
    goal = navigation.goal('navigate_to', {'target': 'cup_1'}, targets=[cup('target', 1.5)])
    answer = navigation.run(goal)
    assert answer.status == SUCCEEDED, answer.result.error_msg
    names = [c.sub_goal for c in navigation.query(goal.command.command_id).foreign_calls]
    assert names == ['drive', 'look_at_target']
    ends = {'reached': ['succeeded'], 'rejected': [], 'hangs': ['canceled']}
    assert arm.head.ends == ends[fate]
    if fate != 'rejected':
        pan, tilt = arm.head.requests[-1].trajectory.points[-1].positions
        # Straight ahead and below the neck, which is 1.2 m high.
        assert pan == pytest.approx(0.0, abs=1e-6) and 0.1 < tilt < 0.6
    assert sorted(answer.result.status.resources) == ['base', 'head']


def test_preconditions_are_asked_for_and_a_silent_scene_is_named(navigation, nav2):
    from embodied_harness.msg import Precondition
    goal = navigation.goal(preconditions=[Precondition(ref='cup_1', version=1)])
    answer = navigation.run(goal)
    assert answer.result.error_code == errors().STALE_PRECONDITION
    assert 'scene_graph_node' in answer.result.error_msg
    assert nav2.started == []


def test_a_scene_graph_that_comes_a_moment_later_is_asked(nav2, processes, robot, tmp_path):
    """What is not discovered yet is waited for, within scene_timeout."""
    from builtin_interfaces.msg import Duration
    from embodied_harness.msg import Precondition
    from embodied_harness.srv import QueryScene
    client = Client(robot, 'navigation_skills_node')
    client.forget()
    start(processes, 'navigation_skills_node', tmp_path,
          'query_scene_service:=a_late_scene', 'scene_timeout:=20.0')
    client.wait()
    goal = client.goal(
        preconditions=[Precondition(ref='cup_1', version=1)], start_within=Duration(sec=30))
    goal.envelope.start_within.sec = 30
    handle = client.send(goal)
    asked = []

    def answer(request, response):
        asked.append(request)
        return response
    robot.node.create_service(
        QueryScene, 'a_late_scene', answer, callback_group=robot.group)
    end = client.result(handle, 25)
    assert end.status == SUCCEEDED, end.result.error_msg
    assert [c.ref for c in asked[0].preconditions] == ['cup_1'] and len(nav2.started) == 1
