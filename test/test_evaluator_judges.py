"""evaluator_node with a model that judges, with observations from a recording and from a source of one's own."""

import http.server
import json
import re
import threading
import time

from conftest import wait_until
import pytest
from test_scene_and_evaluator import FAILURE
from test_scene_and_evaluator import home as _home
from test_scene_and_evaluator import Judge
from test_scene_and_evaluator import lifted
from test_scene_and_evaluator import robot as _robot
from test_scene_and_evaluator import run_pick
from test_scene_and_evaluator import slipped
from test_scene_and_evaluator import start
from test_scene_and_evaluator import start_judge
from test_scene_and_evaluator import SUCCESS
from test_scene_and_evaluator import UNKNOWN

pytest.importorskip('rclpy')

home, robot = _home, _robot
KEY = 'sk-only-for-tests'


class FakeEndpoint:
    """A fake model behind HTTP: it says what it is told to say and keeps what it was asked."""

    def __init__(self):
        """Serve on a free port."""
        self.asked, self.keys = [], []
        self.outcome, self.ids = 'SUCCESS', ['e1']
        # What it does instead of answering well.
        self.fault = None
        self.ended = threading.Event()
        fake = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):  # noqa: N802
                body = self.rfile.read(int(self.headers['Content-Length']))
                fake.asked.append(json.loads(body))
                fake.keys.append(self.headers['Authorization'])
                fake.respond(self)

            def log_message(self, *_):
                pass
        self.server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.server.daemon_threads = True
        self.url = 'http://127.0.0.1:{}/v1'.format(self.server.server_address[1])
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def respond(self, handler):
        """Answer one question."""
        text = json.dumps({'outcome': self.outcome, 'reason': 'the picture shows it',
                           'evidence_ids': self.ids})
        status = 200
        if self.fault == 'slow':
            self.ended.wait(30)
        elif self.fault == 'words':
            text = 'Certainly! It is a SUCCESS.'
        elif self.fault == 'invented':
            text = text.replace('"e1"', '"e99"')
        elif self.fault in ('400', '503'):
            status = int(self.fault)
        body = json.dumps(
            {'choices': [{'finish_reason': 'stop', 'message': {'content': text}}]}).encode()
        if self.fault == 'huge':
            body = b' ' * 1_000_000
        handler.send_response(status)
        handler.send_header('Content-Length', str(len(body)))
        handler.end_headers()
        handler.wfile.write(body[:-20] if self.fault == 'cut off' else body)

    def close(self):
        """End it."""
        self.ended.set()
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def endpoint():
    """Give a fake endpoint."""
    fake = FakeEndpoint()
    yield fake
    fake.close()


class Camera:
    """A camera: publishes images at 10 Hz."""

    def __init__(self, node, topic):
        """Begin."""
        from rclpy.qos import qos_profile_sensor_data
        from sensor_msgs.msg import Image
        self.node, self.step, self.encoding = node, 3 * 16, 'rgb8'
        self.type = Image
        self._publisher = node.create_publisher(Image, topic, qos_profile_sensor_data)
        self._timer = node.create_timer(0.1, self._publish)

    def _publish(self):
        image = self.type(height=12, width=16, encoding=self.encoding, step=self.step)
        image.header.stamp = self.node.get_clock().now().to_msg()
        image.data = bytes(self.step * 12)
        self._publisher.publish(image)

    def close(self):
        """End."""
        self.node.destroy_timer(self._timer)
        self.node.destroy_publisher(self._publisher)


def model_judge(processes, home, endpoint, folder, judge, *parameters):
    """Start the evaluator with a model behind the fake endpoint."""
    key = folder / 'key'
    key.write_text(KEY + '\n', encoding='utf-8')
    return start_judge(
        processes, home, ('judge', judge), ('model.url', endpoint.url), ('model.name', 'fake'),
        ('model.api_key_file', key), ('model.first_wait', 0.01), *parameters)


def open_fingers(robot, process, run, width=0.1):
    """Play a run of open_gripper after which the fingers are so far apart."""
    for kind in (1, 3):
        robot.event(kind, run, 'open_gripper', {'object': 'x'})
    robot.width = width
    process.wait_for_output('End of run ' + run)


def test_both_have_to_agree(processes, robot, home, ros_node, endpoint, tmp_path):
    """Predicates and a model that looks at named pictures; whatever the model lacks is UNKNOWN, never SUCCESS."""
    camera = Camera(ros_node, 'camera/image_raw')
    process = model_judge(processes, home, endpoint, tmp_path, 'both', ('model.timeout', 2.0))
    judge = Judge(ros_node)
    open_fingers(robot, process, 'open')
    endpoint.ids = ['e1', 'view_head']
    _, result = judge.judge('open')
    verdict = result.verdict
    assert (result.error_code, verdict.outcome) == (0, SUCCESS), verdict.reason
    assert verdict.judge == 'both' and verdict.judge_version == '1.0.0+fake 1.0.0'
    picture = next(e for e in verdict.evidence if e.id == 'view_head')
    assert (picture.kind, picture.source) == ('image', 'camera/image_raw')

    # What it was asked: the post-condition, the evidence, the picture; with the key.
    question = endpoint.asked[-1]
    text, label, image = question['messages'][1]['content']
    asked = json.loads(text['text'])
    assert asked['predicates'] == {'gripper': {'state': 'open'}}
    assert 'fingers 0.100 m apart' in asked['evidence'][0]['summary']
    assert label['text'] == 'view_head:'
    assert image['image_url']['url'].startswith('data:image/jpeg;base64,/9j/')
    assert question['response_format']['type'] == 'json_schema'
    assert endpoint.keys[-1] == 'Bearer ' + KEY and KEY not in process.output()

    # It lies: the predicates see open fingers, then closed ones.
    endpoint.outcome = 'FAILURE'
    verdict = judge.judge('open')[1].verdict
    assert verdict.outcome == UNKNOWN and 'do not agree' in verdict.reason
    endpoint.outcome = 'SUCCESS'
    open_fingers(robot, process, 'closed', 0.03)
    assert judge.judge('closed')[1].verdict.outcome == UNKNOWN
    endpoint.outcome = 'FAILURE'
    assert judge.judge('closed')[1].verdict.outcome == FAILURE
    robot.width, endpoint.outcome, endpoint.ids = 0.1, 'SUCCESS', ['e1']
    robot.wait_for_rounds(6)

    for fault, why in (
            ('words', 'not of the schema'), ('invented', 'evidence "e99"'),
            ('400', 'HTTP 400'), ('503', 'HTTP 503'), ('huge', 'more than'),
            ('cut off', 'broke off'), ('slow', 'no answer within')):
        endpoint.fault = fault
        verdict = judge.judge('open')[1].verdict
        assert verdict.outcome == UNKNOWN, (fault, verdict.reason)
        assert why in verdict.reason, (fault, verdict.reason)
        assert KEY not in verdict.reason
    endpoint.fault = None
    assert judge.judge('open')[1].verdict.outcome == SUCCESS

    # An image whose rows are too short for its width, or of which nobody knows what its bytes mean, is no picture.
    for run, step, encoding in (('short', 40, 'rgb8'), ('blind', 3 * 16, '32FC1')):
        camera.step, camera.encoding = step, encoding
        process.wait_for_output('a picture of the view head was dropped')
        open_fingers(robot, process, run)
        assert judge.judge(run)[1].verdict.outcome == SUCCESS
        assert len(endpoint.asked[-1]['messages'][1]['content']) == 1

    endpoint.server.shutdown()
    endpoint.server.server_close()
    verdict = judge.judge('open')[1].verdict
    assert verdict.outcome == UNKNOWN and 'reached' in verdict.reason, verdict.reason
    camera.close()
    assert process.is_running()


@pytest.mark.parametrize('given, told', [
    ((('model.url', 'http://127.0.0.1:1/v1'),), 'setting name of the model'),
    ((('model.name', 'm'), ('model.url', 'ftp://x')), 'http://'),
    ((('model.name', 'm'), ('model.url', 'http://x'), ('model.api_key_env', 'EH_NO_KEY')),
     'EH_NO_KEY is not set'),
    ((('model.name', 'm'), ('model.url', 'http://x'), ('views', '["head"]')), 'name: topic'),
])
def test_a_model_that_cannot_be_asked_is_said_at_the_start(processes, given, told):
    """Nothing is begun with half a judge."""
    process = start(processes, 'evaluator_node', ('judge', 'model'), *given)
    assert process.wait() == 1
    assert told in process.output(), process.output()


def fingers(stamp, width):
    """Return an observation of the fingers as a line of a recording."""
    return json.dumps({'gripper': {'stamp': int(stamp * 1e9), 'width': width, 'effort': 0.0}})


def test_a_recording_is_judged_like_the_robot(processes, robot, home, ros_node, tmp_path):
    """Observations come from a file; what the robot publishes meanwhile does not count."""
    now = time.time()
    path = tmp_path / 'observations.jsonl'
    # Open now, half closed from half a minute on.
    path.write_text('\n'.join(
        fingers(now + t / 5, 0.1 if t < 600 else 0.03) for t in range(1200)), encoding='utf-8')
    process = start_judge(processes, home, ('observations', 'recorded'), ('recording', path))
    judge = Judge(ros_node)
    open_fingers(robot, process, 'open', 0.03)
    verdict = judge.judge('open')[1].verdict
    assert verdict.outcome == SUCCESS and '0.100 m apart' in verdict.reason, verdict.reason


class SimulatedTime:
    """A clock that stands where it is put."""

    def __init__(self, node):
        """Begin at nothing."""
        from rosgraph_msgs.msg import Clock
        self.type, self.stamp, self.node = Clock, None, node
        self._publisher = node.create_publisher(Clock, '/clock', 10)
        self._timer = node.create_timer(0.05, self._tell)

    def _tell(self):
        if self.stamp is not None:
            self._publisher.publish(self.type(clock=self.stamp))

    def close(self):
        """End."""
        self.node.destroy_timer(self._timer)
        self.node.destroy_publisher(self._publisher)


def decided(verdict):
    """Return what a verdict says."""
    return verdict.outcome, verdict.reason, [
        (p.predicate_json, p.truth, p.explanation) for p in verdict.predicates]


def margins(verdict):
    """Return the margins of a verdict."""
    return [p.margin for p in verdict.predicates]


def test_a_run_is_recorded_and_judged_again(processes, robot, home, ros_node, tmp_path):
    """From the file and at the same times the verdict and its margins are the same."""
    folder = tmp_path / 'recordings'
    process = start_judge(processes, home, ('record_to', folder), ('record_runs', 2))
    judge = Judge(ros_node)
    runs = {}
    for name, end in (('first', lifted), ('second', lifted), ('third', slipped)):
        run_pick(robot, process, end, name)
        runs[name] = judge.judge(name)[1].verdict
        wait_until((folder / 'observed_{}_0.jsonl'.format(name)).exists, 10,
                   'the recording of ' + name)
    assert (runs['second'].outcome, runs['third'].outcome) == (SUCCESS, FAILURE)
    # The oldest was dropped.
    wait_until(lambda: sorted(p.name for p in folder.iterdir()) == [
        'observed_second_0.jsonl', 'observed_third_0.jsonl'], 10, 'two recordings')
    process.stop()

    clock = SimulatedTime(ros_node)
    try:
        for name in ('second', 'third'):
            start_event, end_event = (e for e in robot.told if e.run_id == name)
            assert (start_event.event, end_event.event) == (1, 3)
            again = start_judge(
                processes, home, ('observations', 'recorded'), ('use_sim_time', 'true'),
                ('recording', folder / 'observed_{}_0.jsonl'.format(name)))
            for event, stamp in ((start_event, start_event.stamp), (end_event, runs[name].stamp)):
                clock.stamp = stamp

                def is_heard(event=event):
                    # What comes before the clock does is refused for lying in the future.
                    robot.events.publish(event)
                    kind = {1: 'Start', 3: 'End'}[event.event]
                    return re.search(r'{} of run {} \(pick\)\s*$'.format(kind, event.run_id),
                                     again.output(), re.MULTILINE)
                wait_until(is_heard, 20, again.output)
            verdict = judge.judge(name)[1].verdict
            assert decided(verdict) == decided(runs[name])
            assert margins(verdict) == pytest.approx(margins(runs[name]), abs=1e-9, nan_ok=True)
            again.stop()
    finally:
        clock.close()


def test_a_recording_that_is_none_is_said_at_the_start(processes, tmp_path):
    """The file and the line are named."""
    path = tmp_path / 'observations.jsonl'
    path.write_text(fingers(1.0, 0.1) + '\n{"wings": 2}\n', encoding='utf-8')
    process = start(processes, 'evaluator_node', ('observations', 'recorded'), ('recording', path))
    assert process.wait() == 1
    assert 'observations.jsonl' in process.output() and 'line 2' in process.output()


def test_a_source_of_ones_own_is_judged_by(processes, robot, home, ros_node):
    """Observations come over a topic of the deployer, bad ones are told and dropped."""
    from std_msgs.msg import String
    process = start_judge(processes, home, ('observations', 'external'))
    judge = Judge(ros_node)
    publisher = ros_node.create_publisher(String, 'external_observations', 10)
    wait_until(lambda: publisher.get_subscription_count() > 0, 20, 'a subscription')
    publisher.publish(String(data='{"wings": 2}'))
    process.wait_for_output('is no observation')
    timer = ros_node.create_timer(
        0.1, lambda: publisher.publish(String(data=fingers(time.time(), 0.1))))
    try:
        open_fingers(robot, process, 'open', 0.03)
        verdict = judge.judge('open')[1].verdict
        assert verdict.outcome == SUCCESS and '0.100 m apart' in verdict.reason, verdict.reason
    finally:
        ros_node.destroy_timer(timer)
