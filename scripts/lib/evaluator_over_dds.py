"""Tries the judge on real nodes over DDS: the worlds, tasks and faults of seeds of the deterministic world.

The truth is the simulated robot's own (get_ground_truth), asked for ten times a second; what should hold after a
skill is written here again, as src/world/src/verdicts.rs has it, and nothing of the judge's evidence is looked at.
"""

import collections
import json
import math
import os
import tempfile
import threading
import time
from pathlib import Path

import demo

# As in src/world/src/verdicts.rs: `near` with 0.05 m for localisation, `lifted`, `gripper open`, `arm`.
NEAR, LIFTED, OPEN, ARM = 0.95, 0.05, 0.09, 0.08
KIND_SURFACE, KIND_CONTAINER, KIND_OBJECT = 4, 5, 6
OUTCOMES = {1: "FAILURE", 2: "SUCCESS", 3: "FAILURE", 4: "UNKNOWN"}
START, END = 1, 3
# A task that takes longer is given up.
TASK_LIMIT = 240
# The truth of the last minutes.
MOMENTS = 6000


def position(thing):
    """The middle of an object."""
    return thing["pose"]["position"]


def meant(target, truth):
    """Which body a command means: the one that was held, or the one of its class nearest to where it was told to be."""
    told = (target.pose.position.x, target.pose.position.y, target.pose.position.z)
    of_class = {name: o for name, o in truth["objects"].items() if o["class"] == target.class_name}
    held = of_class.get(truth["held"])
    if held and math.dist(position(held)[:2], told[:2]) < 0.5:
        return truth["held"]
    return min(of_class, key=lambda name: math.dist(position(of_class[name]), told), default=None)


def is_near(target, start, now):
    """Whether the base is at the target, which is where it is now; None: not known here."""
    at = [target.pose.position.x, target.pose.position.y]
    if target.kind == KIND_OBJECT:
        name = meant(target, start)
        if name is None:
            return None
        at = position(now["objects"][name])[:2]
    elif target.kind not in (KIND_SURFACE, KIND_CONTAINER):
        return None
    base = now["base"]["pose"]
    # The homes' furniture is not turned.
    dx = max(abs(base["x"] - at[0]) - target.size.x / 2, 0.0)
    dy = max(abs(base["y"] - at[1]) - target.size.y / 2, 0.0)
    return math.hypot(dx, dy) <= NEAR


def holds(event, start, now):
    """Whether what a skill should bring about is there in truth; None: not known here."""
    target = {t.argument: t for t in event.targets}
    fingers = now["joints"]["gripper_joint"]["position"]
    if event.skill in ("pick", "place"):
        name = meant(target["object"], start)
        if name is None:
            return None
        before, after, held = start["objects"][name], now["objects"][name], now["held"] == name
        if event.skill == "pick":
            return held and position(after)[2] - position(before)[2] >= LIFTED
        return after["support"] == target["support"].ref and not held
    if event.skill == "navigate_to":
        return is_near(target["target"], start, now)
    if event.skill == "open_gripper":
        return fingers >= OPEN and not now["held"]
    if event.skill == "close_gripper":
        return fingers < OPEN or bool(now["held"])
    return None


class Witness:
    """Hears of runs and verdicts, and asks the robot for the truth."""

    def __init__(self, node):
        """Begin to listen."""
        from embodied_harness.msg import RunEvent, SessionEvent
        from embodied_harness.srv import GetGroundTruth
        from rclpy.qos import DurabilityPolicy, QoSProfile

        self.lock = threading.Lock()
        self.moments = collections.deque(maxlen=MOMENTS)
        self.runs, self.judged = {}, {}
        self.ended = set()
        self._asked = None
        self._type = GetGroundTruth
        self._client = node.create_client(GetGroundTruth, "get_ground_truth")
        latched = QoSProfile(depth=256, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        node.create_subscription(RunEvent, "run_events", self._run, latched)
        node.create_subscription(SessionEvent, "session_events", self._session, latched)
        node.create_timer(0.1, self._ask)

    def _ask(self):
        if self._asked is not None and not self._asked.done():
            return
        if self._client.service_is_ready():
            self._asked = self._client.call_async(self._type.Request())
            self._asked.add_done_callback(self._told)

    def _told(self, future):
        answer = future.result()
        if answer is not None and answer.error_code == 0:
            with self.lock:
                self.moments.append((time.monotonic(), json.loads(answer.truth_json)))

    def _run(self, event):
        with self.lock:
            run = self.runs.setdefault(event.run_id, {"event": event})
            if event.targets:
                run["event"] = event
            if event.event in (START, END):
                run[event.event] = time.monotonic()

    def _session(self, event):
        if event.kind == "task_ended":
            self.ended.add(event.task_id)
        if event.kind != "judged":
            return
        outcome = json.loads(event.payload_json)["outcome"]
        outcome = OUTCOMES.get(outcome, str(outcome).upper())
        with self.lock:
            # A later answer about the same run takes the place of an earlier one.
            self.judged[event.run_id] = (time.monotonic(), outcome, event.text)

    def truth_at(self, at):
        """The first moment from then on, or the last one."""
        later = (truth for time_, truth in self.moments if time_ >= at)
        return next(later, self.moments[-1][1] if self.moments else None)

    def verdicts(self):
        """Each verdict beside the truth: skill, whether it holds, outcome, whether that changed since the end, why."""
        out, unreferred = [], 0
        with self.lock:
            for run_id, (at, outcome, text) in self.judged.items():
                run = self.runs.get(run_id)
                start = run and START in run and self.truth_at(run[START])
                truth = None
                if start:
                    truth = holds(run["event"], start, self.truth_at(at))
                if truth is None:
                    unreferred += 1
                    continue
                ended = holds(run["event"], start, self.truth_at(run.get(END, at)))
                out.append((run["event"].skill, truth, outcome, truth != ended, text))
        return out, unreferred


def wait(graph, limit, holds_now, what):
    """Waits until something holds; raises when a node has died or the time is over."""
    deadline = time.monotonic() + limit
    while not holds_now():
        graph.check()
        if time.monotonic() > deadline:
            raise demo.DemoError(f"{what} did not come within {limit} s; see {graph.log}")
        time.sleep(0.05)


def run_seed(scenario, folder):
    """Runs the tasks of a seed on real nodes; returns its verdicts and how many could not be held against the truth."""
    import rclpy
    from embodied_harness.action import ExecuteTask
    from rclpy.action import ActionClient
    from rclpy.executors import SingleThreadedExecutor

    world = folder / "world.yaml"
    world.write_text(scenario["world"] + "faults: " + json.dumps(scenario["faults"]) + "\n", encoding="utf-8")
    parameters = folder / "robot.yaml"
    parameters.write_text(
        "/**/sim_robot_node:\n  ros__parameters:\n    expose_ground_truth: true\n"
        f"    seed: {scenario['seed'] % 2**31}\n",
        encoding="utf-8",
    )
    graph = demo.Graph(folder, dict(os.environ), "info", str(world), more=[f"params_file:={parameters}"])
    context = rclpy.Context()
    thread = spinning = None
    try:
        demo.wait_until_ready(graph)
        rclpy.init(context=context)
        node = rclpy.create_node("witness", context=context)
        spinning = SingleThreadedExecutor(context=context)
        spinning.add_node(node)
        witness = Witness(node)
        tasks = ActionClient(node, ExecuteTask, "execute_task")
        thread = threading.Thread(target=spinning.spin, daemon=True)
        thread.start()
        for instruction in scenario["tasks"]:
            wait(graph, 30, lambda: tasks.server_is_ready() and witness.moments, "the harness and the robot's truth")
            goal = ExecuteTask.Goal(instruction=instruction)
            goal.time_budget.sec = TASK_LIMIT
            sent = tasks.send_goal_async(goal)
            wait(graph, 30, sent.done, "an acknowledgement of the task")
            result = sent.result().get_result_async()
            wait(graph, TASK_LIMIT + 60, result.done, "the end of the task")
            # The last event of a session may come after the result.
            wait(graph, 30, lambda: result.result().result.task_id in witness.ended, "the task's last event")
        return witness.verdicts()
    finally:
        if spinning is not None:
            spinning.shutdown()
        if thread is not None:
            thread.join(5)
        if context.ok():
            rclpy.shutdown(context=context)
        graph.end()


def sample(scenario_of, first, executions, tell):
    """Runs seeds until so many executions were judged; returns the verdicts, their seeds and what was not held."""
    options = type("Options", (), {"domain": None})()
    verdicts, seeds, unreferred, seed = [], [], 0, first
    with demo.domain_of(options) as domain:
        os.environ["ROS_DOMAIN_ID"] = domain
        os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
        os.environ["RCUTILS_LOGGING_BUFFERED_STREAM"] = "0"
        while len(verdicts) < executions:
            with tempfile.TemporaryDirectory(prefix="embodied_harness_verdicts_") as folder:
                found, missed = run_seed(scenario_of(seed), Path(folder))
            seeds.append(seed)
            verdicts += [v for v in found if not v[3]]
            unreferred += missed
            tell(seed, found)
            seed += 1
    return verdicts, seeds, unreferred
