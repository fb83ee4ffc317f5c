"""Kills the harness and the adapters at their failpoints, over and over, while tasks run.

One process at a time carries a crash plan (eh_ros_edge::failpoint) in its environment. When it has struck,
the process is started again, with the next plan or without; to arm another one that is killed -9 wherever it
is, and so is one whose plan does not strike in time. The simulated robot counts what was really begun; it and
the protection are not killed.
"""

import collections
import json
import math
import pathlib
import random
import signal
import time

from conftest import wait_until
from task_graph import new_id
from task_graph import OUTCOME

FAILPOINTS = json.loads(
    (pathlib.Path(__file__).parent / 'data' / 'failpoints.json').read_text(encoding='utf-8'))
VICTIMS = {
    'harness_node': 'harness',
    'navigation_skills_node': 'executor',
    'manipulation_skills_node': 'executor',
}
# Tasks one after another; each can be done whatever the ones before it have left.
INSTRUCTIONS = (
    'go to the kitchen', 'pick up the red cup', 'put the red cup on the kitchen counter',
    'go to the living room', 'look at the sofa')
# Wall seconds in which a plan has to strike.
PATIENCE = 20.0
# Longest pause between two victims [s].
QUIET = 8.0
# Wall seconds for one task, however often what it needs is killed.
TASK_LIMIT = 420.0
SIGKILLED = -signal.SIGKILL
# A place counts as reached within this [m]: the evaluator's tolerance and the error of localisation.
NEAR = 0.6


def crash_plans(victim, seed):
    """Yield crash plans without an end: each failpoint before and after, then again in another order."""
    rng = random.Random('{} {}'.format(seed, victim))
    names = FAILPOINTS[VICTIMS[victim]]
    while True:
        places = [(name, moment) for name in names for moment in ('before', 'after')]
        rng.shuffle(places)
        for name, moment in places:
            yield '{}:{}:{}'.format(name, moment, rng.choice((1, 1, 1, 2, 3)))


class Campaign:
    """One campaign: so many kills, from one seed."""

    def __init__(self, graph, client, seed):
        """Take a graph of which everything but the victims runs, and a client in it."""
        self.graph = graph
        self.client = client
        self.plans = {victim: crash_plans(victim, seed) for victim in VICTIMS}
        self.rng = random.Random(seed)
        self.armed = None
        self.quiet_until = 0.0
        self.over = False
        self.kills = collections.Counter()
        self.unstruck = collections.Counter()
        self.outcomes = collections.Counter()
        self.others = []
        self.settled = 0
        self.violations = []
        self.tasks = []

    def arm(self, victim):
        """Start a victim, which does not run, with its next plan."""
        plan = next(self.plans[victim])
        self.graph.start(victim, {'EMBODIED_HARNESS_CRASH_AT': plan})
        self.armed = (victim, plan, time.monotonic())

    def arm_another(self):
        """Choose who is killed next; if it runs without a plan it is killed here and now."""
        self.armed = None
        self.quiet_until = time.monotonic() + self.rng.uniform(0.0, QUIET)

    def strike_down(self, victim):
        """Kill a victim at any time."""
        process = self.graph.running[victim]
        process.signal(signal.SIGKILL)
        process.wait()
        self.kills['at any time'] += 1

    def total(self):
        """Return how many processes have been killed."""
        return sum(self.kills.values())

    def look_after(self):
        """Start again what was struck, and see to it that somebody is going to be."""
        for victim in VICTIMS:
            process = self.graph.running[victim]
            if process.is_running():
                continue
            status = process.popen.returncode
            mine = self.armed is not None and self.armed[0] == victim
            if status != SIGKILLED or not mine:
                self.violations.append('{} ended with {} without having been killed:\n{}'.format(
                    victim, status, process.output()[-2000:]))
            else:
                self.kills[self.armed[1].rsplit(':', 1)[0]] += 1
            # What comes back now and then finds a plan for it already.
            if self.rng.random() < 0.5:
                self.arm(victim)
            else:
                self.graph.start(victim)
                self.arm_another()
        now = time.monotonic()
        if self.armed is None:
            if now >= self.quiet_until and not self.over:
                victim = self.rng.choice(sorted(VICTIMS))
                self.strike_down(victim)
                self.arm(victim)
        elif now - self.armed[2] > PATIENCE:
            victim, plan, _ = self.armed
            self.unstruck[plan.rsplit(':', 1)[0]] += 1
            self.strike_down(victim)
            self.graph.start(victim)
            self.arm_another()

    def query(self, task_id):
        """Return the answer of query_task; None while nobody answers."""
        client = self.client
        if client.node.count_services('query_task') == 0:
            return None
        kind = client.srv.QueryTask
        asked = client._clients.setdefault(
            'query_task', client.node.create_client(kind, 'query_task', callback_group=client.group))
        future = asked.call_async(kind.Request(task_id=task_id))
        deadline = time.monotonic() + 1.5
        while not future.done() and time.monotonic() < deadline:
            self.look_after()
            time.sleep(0.02)
        if not future.done():
            asked.remove_pending_request(future)
            return None
        return future.result()

    def run_task(self, instruction):
        """Send a task and follow it to its end over all crashes."""
        client = self.client
        task_id = new_id()
        goal = client.action.Goal(task_id=task_id, instruction=instruction)
        goal.max_steps = 60
        goal.time_budget.sec = 400
        self.tasks.append(task_id)
        began = time.monotonic()
        answer = None
        sent_at = -math.inf
        while time.monotonic() - began < TASK_LIMIT:
            self.look_after()
            answer = self.query(task_id)
            unknown_task = answer is not None and answer.error_code != 0
            if unknown_task and time.monotonic() - sent_at > 3:
                # Not there yet, or lost with the process that it was sent to: it is the same task.
                if client.tasks.server_is_ready():
                    client.tasks.send_goal_async(goal)
                    sent_at = time.monotonic()
            elif answer is not None and not unknown_task and not answer.running:
                break
            self.settle_what_is_unknown()
            time.sleep(0.1)
        else:
            self.violations.append('task "{}" {} did not end within {} s: {}'.format(
                instruction, task_id, TASK_LIMIT, answer))
            return
        name = next(n for n, v in OUTCOME.items() if v == answer.outcome)
        self.outcomes[name] += 1
        if name != 'SUCCEEDED':
            self.others.append('"{}": {} {} {}'.format(
                instruction, name, answer.task_error_code, answer.task_error_msg))
        self.judge(instruction, name, answer)

    def settle_what_is_unknown(self):
        """Do as a person who is asked what became of a command: look, and tell."""
        for request in list(self.client.requests.values()):
            if request.kind != request.KIND_SETTLE or request.closed:
                continue
            if not self.client.stands():
                continue
            kind = self.client.srv.SettleCommand
            name = 'settle_command'
            if self.client.node.count_services(name) == 0:
                return
            caller = self.client._clients.setdefault(
                name, self.client.node.create_client(kind, name, callback_group=self.client.group))
            future = caller.call_async(kind.Request(
                command_id=request.command_id, final_state=kind.Request.FINAL_FAILED,
                settled_by='campaign', reason='the robot stands; not looked further'))
            deadline = time.monotonic() + 1.5
            while not future.done() and time.monotonic() < deadline:
                self.look_after()
                time.sleep(0.02)
            if future.done() and future.result().error_code == 0:
                self.settled += 1
                self.client.requests.pop(request.request_id, None)

    def judge(self, instruction, outcome, answer):
        """Compare what is claimed with what is true."""
        truth = self.client.truth()
        if outcome != 'SUCCEEDED':
            if not answer.task_error_code or len(answer.task_error_msg) < 20:
                self.violations.append('"{}" ended {} without a reason'.format(instruction, outcome))
            return
        pose = truth['base']['pose']
        false = {
            'go to the kitchen': lambda: not inside(pose, (5.0, 0.0, 9.0, 4.0)),
            'go to the living room': lambda: not inside(pose, (0.0, 0.0, 5.0, 4.5)),
            'pick up the red cup': lambda: truth['held'] != 'cup_red',
            'put the red cup on the kitchen counter':
                lambda: truth['objects']['cup_red']['support'] != 'kitchen_counter',
        }.get(instruction, lambda: False)()
        if false:
            self.violations.append('"{}" is said to have succeeded, but: base {}, held {}, cup {}\n{}'.format(
                instruction, pose, truth['held'], truth['objects']['cup_red'], self.story()))

    def story(self):
        """Return what the harness has told of the last two tasks, in order."""
        return '\n'.join(
            '    {} {}: {}'.format(event.task_id, event.kind, event.text)
            for event in self.client.events if event.task_id in self.tasks[-2:])

    def count_starts(self):
        """Return how many motions were begun; more than once under one UUID is a violation."""
        goals = self.client.truth()['goals']
        for server, starts in goals.items():
            for goal, count in starts.items():
                if count > 1:
                    self.violations.append('{} began goal {} {} times'.format(server, goal, count))
        return sum(len(starts) for starts in goals.values())

    def run(self, kills):
        """Run tasks until so many processes have been killed and the last task has ended."""
        for victim in VICTIMS:
            self.graph.start(victim)
        wait_until(lambda: self.client.tasks.server_is_ready(), 30, 'the task action')
        number = 0
        while self.total() < kills and len(self.violations) < 5:
            self.run_task(INSTRUCTIONS[number % len(INSTRUCTIONS)])
            number += 1
        # A plan that has not struck goes with its process.
        self.over = True
        if self.armed is not None:
            self.strike_down(self.armed[0])
            self.graph.start(self.armed[0])
            self.armed = None

    def report(self):
        """Return the figures as text."""
        places = [k for k in self.kills if k != 'at any time']
        return '\n'.join((
            '{} kills, {} of them at {} places of {} and {} at any time'.format(
                self.total(), self.total() - self.kills['at any time'], len(places),
                2 * sum(len(FAILPOINTS[k]) for k in set(VICTIMS.values())),
                self.kills['at any time']),
            'tasks: {} ({}); commands settled by hand: {}'.format(
                len(self.tasks),
                ', '.join('{} {}'.format(n, o) for o, n in sorted(self.outcomes.items())),
                self.settled),
            *self.others,
            'violations: {}'.format(len(self.violations)), *self.violations))


def inside(pose, rectangle):
    """Whether the base is in the rectangle, or as near to it as the evaluator is sure."""
    x0, y0, x1, y1 = rectangle
    return x0 - NEAR <= pose['x'] <= x1 + NEAR and y0 - NEAR <= pose['y'] <= y1 + NEAR
