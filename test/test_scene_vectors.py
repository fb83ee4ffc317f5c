"""Texts that are like a name, by vectors of an endpoint that may hang, lie, or not be there."""

import http.server
import json
import threading

from conftest import wait_until
import pytest
from test_scene_and_evaluator import FIND
from test_scene_and_evaluator import home  # noqa: F401
from test_scene_and_evaluator import robot  # noqa: F401
from test_scene_and_evaluator import Scene
from test_scene_and_evaluator import see_cup
from test_scene_and_evaluator import start

KEY = 'EH_TEST_EMBEDDING_KEY'
BY_WORDS = 'found by words alone: '


def direction(text):
    """Return a made up vector: what one drinks from points one way, everything else across."""
    is_drink = any(word in text for word in ('cup', 'chalice', 'goblet'))
    return [0.9, 0.1, 0.0] if is_drink else [0.0, 0.1, 0.9]


class FakeEmbeddings:
    """A fake endpoint: it gives vectors, or does what `fault` says."""

    def __init__(self):
        """Serve on a free port."""
        self.asked, self.keys, self.paths = [], [], []
        self.fault = None
        self.ended = threading.Event()
        fake = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):  # noqa: N802
                body = json.loads(self.rfile.read(int(self.headers['Content-Length'])))
                fake.asked.append(body)
                fake.keys.append(self.headers['Authorization'])
                fake.paths.append(self.path)
                fake.respond(self, body['input'])

            def log_message(self, *_):
                pass
        self.server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.server.daemon_threads = True
        self.url = 'http://127.0.0.1:{}/v1'.format(self.server.server_address[1])
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def respond(self, handler, texts):
        """Answer one request."""
        vectors = [direction(text) for text in texts]
        if self.fault == 'hangs':
            self.ended.wait(60)
        elif self.fault == 'dimension':
            vectors = [v + [0.5] for v in vectors]
        elif self.fault == 'nan':
            vectors[0][0] = float('nan')
        elif self.fault == 'too few':
            vectors = vectors[1:]
        body = json.dumps({'data': [
            {'index': i, 'embedding': v} for i, v in enumerate(vectors)]}).encode()
        if self.fault == 'garbage':
            body = b'<html>vectors are sold out</html>'
        handler.send_response(503 if self.fault == '503' else 200)
        handler.send_header('Content-Length', str(len(body)))
        handler.end_headers()
        handler.wfile.write(body[:-10] if self.fault == 'cut off' else body)

    def die(self):
        """End; nothing listens on the port any more."""
        self.server.shutdown()
        self.server.server_close()

    def close(self):
        """Let go of who waits, and end."""
        self.ended.set()
        self.die()


@pytest.fixture
def fake():
    """Give a fake endpoint."""
    fake = FakeEmbeddings()
    yield fake
    fake.close()


def start_scene(processes, home, folder, fake, timeout):  # noqa: F811
    """Start the scene graph with the endpoint."""
    process = start(processes, 'scene_graph_node', ('semantic_map', home),
                    ('state_directory', folder), ('embedding.url', fake.url),
                    ('embedding.name', 'made-up'), ('embedding.api_key_env', KEY),
                    ('embedding.timeout', timeout))
    process.wait_for_output('nodes remembered')
    return process


def test_a_name_is_found_by_what_it_is_like_and_faults_leave_the_words(
        processes, robot, home, tmp_path, ros_node, fake, monkeypatch):  # noqa: F811
    """No word of the text is known; then the endpoint does all that it should not, and dies."""
    monkeypatch.setenv(KEY, 'sk-1')
    # So long that a busy machine does not make an endpoint late that answers at once.
    process = start_scene(processes, home, tmp_path, fake, 20.0)
    scene = Scene(ros_node)
    see_cup(robot, scene)
    assert fake.asked == [], 'nothing is asked for what is no text'

    answer = scene.query(FIND, text='chalice')
    assert [o.ref for o in answer.objects] == ['cup_1'], answer.error_msg
    assert answer.brief.startswith('found by words and by vectors of made-up')
    assert 'no probability of success' in answer.brief
    assert 'cup_1 1.00 (vector)' in answer.brief.splitlines()
    assert set(fake.keys) == {'Bearer sk-1'} and set(fake.paths) == {'/v1/embeddings'}
    texts = [text for body in fake.asked for text in body['input']]
    assert len(texts) == len(set(texts)), 'no text is asked for twice'
    assert {body['model'] for body in fake.asked} == {'made-up'}

    # What fits by words comes first, and the relations come along.
    both = scene.query(FIND, text='the red cup')
    assert [o.ref for o in both.objects][0] == 'cup_1' and '(words)' in both.brief
    assert ('cup_1', 'on', 'table_1') in {
        (r.subject, r.relation, r.object) for r in both.relations}
    # What was asked before needs no endpoint, so that these ask for something new each time.
    for number, (fault, reason) in enumerate((
            ('garbage', 'no JSON'), ('dimension', 'has 4 numbers, those before had 3'),
            ('nan', 'no JSON'), ('too few', 'vectors for'), ('503', 'HTTP 503'),
            ('cut off', 'broke off'))):
        fake.fault = fault
        answer = scene.query(FIND, text='goblet {}'.format(number))
        assert answer.error_code == 0 and answer.objects == [], fault
        assert answer.brief.startswith(BY_WORDS) and reason in answer.brief, answer.brief
        answer = scene.query(FIND, text='杯子' + '。' * (number + 1))
        assert [o.ref for o in answer.objects] == ['cup_1'], fault
        assert answer.brief.startswith(BY_WORDS)
    fake.fault = None
    assert [o.ref for o in scene.query(FIND, text='goblet 9').objects] == ['cup_1']
    fake.die()
    answer = scene.query(FIND, text='杯子')
    assert [o.ref for o in answer.objects] == ['cup_1']
    assert answer.brief.startswith(BY_WORDS) and "can't be reached" in answer.brief
    assert 'sk-1' not in answer.brief
    # What is known stays.
    assert [o.ref for o in scene.query(FIND, text='chalice').objects] == ['cup_1']
    assert process.is_running()


def test_an_endpoint_that_hangs_holds_up_nobody_else(
        processes, robot, home, tmp_path, ros_node, fake, monkeypatch):  # noqa: F811
    """While one query waits for vectors another is answered; the first gets what the words find."""
    monkeypatch.setenv(KEY, 'sk-1')
    process = start_scene(processes, home, tmp_path, fake, 5.0)
    scene = Scene(ros_node)
    see_cup(robot, scene)
    fake.fault = 'hangs'
    request = scene.query_type.Request(operation=FIND, text='cup')
    waiting = scene._query.call_async(request)
    # Answered before the one that came first: by order, not by the clock.
    assert scene.find(class_name='cup') == ['cup_1']
    assert not waiting.done()
    wait_until(waiting.done, 60, 'the answer by words')
    answer = waiting.result()
    assert [o.ref for o in answer.objects] == ['cup_1']
    assert answer.brief.startswith(BY_WORDS) and 'no answer within 5.0 s' in answer.brief
    assert process.is_running()


def test_an_endpoint_that_can_not_be_used_is_told_at_the_start(processes, home, tmp_path):  # noqa: F811
    """A setting that is wrong ends the node with its name."""
    for url, name, said in (('ftp://x', 'm', 'setting url'),
                            ('http://127.0.0.1:1/v1', '', 'setting name')):
        parameters = [('semantic_map', home), ('state_directory', tmp_path),
                      ('embedding.url', url)]
        if name:
            parameters.append(('embedding.name', name))
        process = start(processes, 'scene_graph_node', *parameters)
        process.wait_for_output(said)
        assert process.wait(20) != 0
