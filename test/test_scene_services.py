"""What a planner, an operator and RViz ask of scene_graph_node, beside queries and effects."""

import json
import signal

from conftest import answer_of
from conftest import wait_until
import pytest
from test_scene_and_evaluator import ALL
from test_scene_and_evaluator import BRIEF
from test_scene_and_evaluator import CUP
from test_scene_and_evaluator import FIND
from test_scene_and_evaluator import home  # noqa: F401
from test_scene_and_evaluator import NOT_MET
from test_scene_and_evaluator import REF_NOT_FOUND
from test_scene_and_evaluator import robot  # noqa: F401
from test_scene_and_evaluator import Scene
from test_scene_and_evaluator import SCENE_INVALID
from test_scene_and_evaluator import see_cup
from test_scene_and_evaluator import start
from test_scene_and_evaluator import start_scene

OUTLINE, RELATIONS = 6, 7
# ManageScene
LIST, SWITCH, EXPORT, IMPORT = 1, 2, 3, 4
OFFICE = """
name: office
rooms:
  - {id: lobby, rect: [0, 0, 8, 4]}
furniture:
  - {id: desk_1, class: desk, center: [2, 2], size: [1.0, 1.0, 0.8], surface: true}
"""
# The image that every pixel says of where it is: red is the column, green the row.
WIDTH, HEIGHT, FOCAL = 240, 180, 300.0


class Server(Scene):
    """A client of everything that the node serves."""

    def __init__(self, node):
        """Create the clients."""
        from embodied_harness.srv import CheckPlan, GetObjectImage, ManageScene
        super().__init__(node)
        self._types = {'check_plan': CheckPlan, 'get_object_image': GetObjectImage,
                       'manage_scene': ManageScene}
        self._clients = {n: node.create_client(t, n) for n, t in self._types.items()}

    def ask(self, service, **fields):
        """Return the answer of a service."""
        request = self._types[service].Request()
        for name, value in fields.items():
            setattr(request, name, value)
        return answer_of(self._clients[service], request)

    def manage(self, operation, **fields):
        """Return the answer of manage_scene."""
        return self.ask('manage_scene', operation=operation, **fields)

    def plan(self, *steps):
        """Return the answer to a plan."""
        return self.ask('check_plan', plan_json=json.dumps({'steps': steps}))


def test_a_planner_opens_what_it_needs(processes, robot, home, tmp_path, ros_node):  # noqa: F811
    """From the rooms to the view to the thing, and edges by their ends."""
    start_scene(processes, home, tmp_path)
    scene = Server(ros_node)
    see_cup(robot, scene)
    closed = scene.query(OUTLINE, focus='the red cup')
    assert closed.error_code == 0, closed.error_msg
    lines = closed.brief.splitlines()
    # What fits comes first.
    assert lines[1].startswith('+kitchen: 1 things: 1 cup') and '1 fit' in lines[1], closed.brief
    assert 'cup_1' not in {o.ref for o in closed.objects}
    opened = scene.query(OUTLINE, refs=['kitchen', 'table_1'], focus='the red cup')
    assert any(line.strip().startswith('cup_1 (cup) red') for line in opened.brief.splitlines())
    assert {'cup_1', 'table_1', 'kitchen', 'robot'} <= {o.ref for o in opened.objects}
    assert ('cup_1', 'on', 'table_1') in {
        (r.subject, r.relation, r.object) for r in opened.relations}
    assert scene.query(OUTLINE, refs=['attic']).error_code == REF_NOT_FOUND
    assert scene.query(OUTLINE, focus='x' * 100000).error_code == SCENE_INVALID

    on = scene.query(RELATIONS, refs=['table_1'], text='on')
    assert [(r.subject, r.relation, r.object) for r in on.relations] == [
        ('cup_1', 'on', 'table_1')]
    assert {o.ref for o in on.objects} == {'cup_1', 'table_1'}
    assert scene.query(RELATIONS, text='beside').error_code == SCENE_INVALID
    assert len(scene.query(RELATIONS, limit=2).relations) == 2


def test_a_plan_is_looked_at_before_it_starts(processes, robot, home, tmp_path, ros_node):  # noqa: F811
    """The first step that can't work is named, and nothing changes."""
    start_scene(processes, home, tmp_path)
    scene = Server(ros_node)
    see_cup(robot, scene)
    pick = {'skill': 'pick', 'arguments': {'object': 'cup_1'},
            'preconditions': {'all': [{'near': {'target': '$object', 'max_distance': 1.2}},
                                      {'gripper': {'state': 'empty'}}]},
            'effects': {'add': [{'holding': {'object': '$object'}}],
                        'remove': [{'on': {'object': '$object', 'support': '*'}}]}}
    place = {'skill': 'place', 'arguments': {'object': 'cup_1', 'support': 'table_1'},
             'preconditions': {'holding': {'object': '$object'}},
             'effects': {'add': [{'on': {'object': '$object', 'support': '$support'}},
                                 {'gripper': {'state': 'empty'}}],
                         'remove': [{'holding': {'object': '$object'}}]}}
    version = scene.query(ALL).version
    works = scene.plan(pick, place, pick)
    assert (works.error_code, works.failed_step) == (0, -1), works.error_msg
    assert works.map_id == 'home' and works.version >= version
    twice = scene.plan(pick, pick)
    assert (twice.error_code, twice.failed_step) == (NOT_MET, 1)
    assert 'holds cup_1' in twice.error_msg
    missing = scene.plan(pick, {**place, 'arguments': {'object': 'cup_1', 'support': 'moon'}})
    assert (missing.error_code, missing.failed_step) == (REF_NOT_FOUND, 1)
    for bad in ('', '{', '[]', '{"steps": [{"skill": "x", "preconditions": {"dancing": {}}}]}'):
        answer = scene.ask('check_plan', plan_json=bad)
        assert (answer.error_code, answer.failed_step) == (SCENE_INVALID, -1), bad
    edges = {(r.subject, r.relation, r.object) for r in scene.query(ALL).relations}
    assert ('cup_1', 'on', 'table_1') in edges


def test_maps_are_kept_apart(processes, robot, home, tmp_path, ros_node):  # noqa: F811
    """Each map has its own scene, over switches and a crash, with names, versions and ages."""
    process = start_scene(processes, home, tmp_path)
    scene = Server(ros_node)
    see_cup(robot, scene)
    robot.silent.add('detections')
    robot.wait_for_rounds(2)
    before = scene.query(FIND, refs=['cup_1']).objects[0]
    office = scene.manage(SWITCH, map_id='office', semantic_map_yaml=OFFICE)
    assert (office.error_code, office.map_id) == (0, 'office'), office.error_msg
    assert scene.find(class_name='cup') == []
    assert 'lobby' in scene.query(BRIEF).brief and 'kitchen' not in scene.query(BRIEF).brief
    # Both are called cup_1, and are not each other.
    robot.objects = [('cup', CUP, 'blue')]
    robot.silent.clear()
    wait_until(lambda: scene.find(class_name='cup', text='blue') == ['cup_1'], 20, 'the other cup')
    robot.silent.add('detections')
    robot.wait_for_rounds(2)
    assert list(scene.manage(LIST).map_ids) == ['home', 'office']
    home_again = scene.manage(SWITCH, map_id='home')
    assert (home_again.error_code, home_again.map_id) == (0, 'home'), home_again.error_msg
    again = scene.query(FIND, refs=['cup_1']).objects[0]
    assert (again.version, again.last_seen, again.sightings) == (
        before.version, before.last_seen, before.sightings)
    assert scene.find(class_name='cup', text='red', within='kitchen') == ['cup_1']
    # What is not in use is on the disk: it survives a crash right after the switch.
    process.signal(signal.SIGKILL)
    process.wait()
    start_scene(processes, home, tmp_path)
    wait_until(lambda: scene.query(FIND).error_code == 0, 20, 'the scene again')
    assert scene.manage(SWITCH, map_id='office').error_code == 0
    assert scene.find(class_name='cup', text='blue', within='lobby') == ['cup_1']

    # What can't be used changes nothing.
    for fields, says in (({'map_id': ''}, 'map_id'), ({'map_id': '../x'}, 'map_id'),
                         ({'map_id': 'shed', 'semantic_map_yaml': 'rooms: []'}, 'no rooms'),
                         ({'map_id': 'shed', 'semantic_map_yaml': 'x' * 5000000}, 'bytes')):
        answer = scene.manage(SWITCH, **fields)
        assert answer.error_code == SCENE_INVALID and says in answer.error_msg, answer.error_msg
        assert answer.map_id == 'office'
    assert scene.manage(0).error_code == SCENE_INVALID


def test_a_scene_goes_out_and_in_again(processes, robot, home, tmp_path, ros_node):  # noqa: F811
    """As JSON, with ages; what is malformed or of another map is refused whole."""
    process = start_scene(processes, home, tmp_path)
    scene = Server(ros_node)
    see_cup(robot, scene)
    robot.silent.add('detections')
    robot.wait_for_rounds(2)
    seen = scene.query(FIND, refs=['cup_1']).objects[0].last_seen
    out = scene.manage(EXPORT)
    assert out.error_code == 0, out.error_msg
    text = out.scene_json
    assert json.loads(text)['format'] == 'embodied_harness/scene'

    def everything():
        answer = scene.query(ALL)
        return answer.version, sorted(o.ref for o in answer.objects)
    # The robot stands still: no version comes of it.
    before = everything()
    broken = json.loads(text)
    broken['objects'][0]['confidence'] = 7
    for bad in ('', text[:-1], json.dumps(broken), json.dumps({**json.loads(text), 'map_id': 'x'})):
        answer = scene.manage(IMPORT, scene_json=bad)
        assert answer.error_code == SCENE_INVALID, bad[:100]
        assert 'nothing was changed' in answer.error_msg
        assert everything() == before
    assert scene.manage(IMPORT, scene_json=text, map_id='shed').error_code == SCENE_INVALID
    # Another robot of the same map, and a restart of it.
    more = json.loads(text)
    cup = next(o for o in more['objects'] if o['ref'] == 'cup_1')
    more['objects'].append({**cup, 'ref': 'cup_7'})
    answer = scene.manage(IMPORT, scene_json=json.dumps(more))
    assert (answer.error_code, answer.map_id) == (0, 'home'), answer.error_msg
    assert answer.version > before[0]
    assert scene.find(class_name='cup') == ['cup_1', 'cup_7']
    assert scene.query(FIND, refs=['cup_1']).objects[0].last_seen == seen
    process.signal(signal.SIGTERM)
    process.wait()
    start_scene(processes, home, tmp_path)
    wait_until(lambda: scene.query(FIND, refs=['cup_7']).error_code == 0, 20, 'cup_7 again')
    assert scene.query(FIND, refs=['cup_7']).objects[0].last_seen == seen


def test_markers_for_rviz(processes, robot, home, tmp_path, ros_node):  # noqa: F811
    """Whole messages for who listens, with what there is."""
    from visualization_msgs.msg import Marker, MarkerArray
    start_scene(processes, home, tmp_path)
    scene = Server(ros_node)
    see_cup(robot, scene)
    messages = []
    listener = ros_node.create_subscription(MarkerArray, 'scene_markers', messages.append, 10)
    wait_until(lambda: messages, 20, 'markers')
    markers = messages[-1].markers
    assert markers[0].action == Marker.DELETEALL
    assert {'cup_1', 'table_1', 'kitchen', 'robot'} <= {m.text for m in markers if m.text}
    assert all(m.header.frame_id == 'map' for m in markers)
    cubes = [m for m in markers if m.ns == 'object']
    assert len(cubes) == 1 and cubes[0].type == Marker.CUBE
    assert cubes[0].pose.position.x == pytest.approx(CUP[0], abs=0.02)
    ros_node.destroy_subscription(listener)


class Camera:
    """Publishes one image again and again, with its lens."""

    def __init__(self, node, robot):  # noqa: F811
        """Create the publishers."""
        from rclpy.qos import qos_profile_sensor_data
        from sensor_msgs.msg import CameraInfo, Image
        self.robot, self.image, self.info = robot, Image(), CameraInfo()
        self._images = node.create_publisher(Image, 'image', qos_profile_sensor_data)
        self._infos = node.create_publisher(CameraInfo, 'info', qos_profile_sensor_data)
        for message in (self.image, self.info):
            message.header.frame_id = 'camera'
            message.width, message.height = WIDTH, HEIGHT
        self.info.k = [FOCAL, 0.0, WIDTH / 2, 0.0, FOCAL, HEIGHT / 2, 0.0, 0.0, 1.0]
        self.image.encoding, self.image.step = 'rgb8', 3 * WIDTH
        self.image.data = [v for row in range(HEIGHT) for column in range(WIDTH)
                           for v in (column, row, 0)]

    def publish(self):
        """Publish both, as taken now."""
        self.image.header.stamp = self.info.header.stamp = self.robot.now()
        self._infos.publish(self.info)
        self._images.publish(self.image)


def test_the_image_of_an_object(processes, robot, home, tmp_path, ros_node):  # noqa: F811
    """The part of the camera's image in which its box is; what is no image is refused with words."""
    process = start(
        processes, 'scene_graph_node', ('semantic_map', home), ('state_directory', tmp_path),
        ('image_topic', 'image'), ('camera_info_topic', 'info'))
    process.wait_for_output('nodes remembered')
    scene = Server(ros_node)
    see_cup(robot, scene)
    camera = Camera(ros_node, robot)

    def ask(**fields):
        camera.publish()
        return scene.ask('get_object_image', ref='cup_1', **fields)
    # Encodings and sizes that are none first, while no good one is remembered.
    camera.image.encoding = '32FC1'
    wait_until(lambda: '32FC1' in ask().error_msg, 20, 'the encoding to be refused')
    camera.image.encoding, camera.image.height = 'rgb8', HEIGHT + 1
    wait_until(lambda: 'bytes' in ask().error_msg, 20, 'the missing row to be seen')
    camera.image.height, camera.info.width = HEIGHT, 2 * WIDTH
    wait_until(lambda: '{} x {}'.format(2 * WIDTH, HEIGHT) in ask().error_msg, 20,
               'the other size of the lens to be seen')
    camera.info.width = WIDTH
    wait_until(lambda: ask().error_code == 0, 20, lambda: ask().error_msg)
    answer = ask()
    image = answer.image
    # The cup is 1.15 m ahead and 0.05 m above the axis: 0.05 / 1.15 · 300 = 12 pixels up.
    assert answer.x < WIDTH / 2 < answer.x + image.width
    assert answer.y < HEIGHT / 2 - 12 < answer.y + image.height
    # 0.08 m and 0.1 m of box, near and far faces.
    assert 20 <= image.width <= 30 and 25 <= image.height <= 45
    assert (image.encoding, image.step) == ('rgb8', 3 * image.width)
    assert len(image.data) == image.step * image.height
    assert tuple(image.data[:2]) == (answer.x, answer.y)
    assert image.header.frame_id == 'camera' and answer.share == 1.0
    wider = ask(margin=0.5)
    assert wider.image.width > 1.8 * image.width
    assert ask(margin=-1.0).error_code == SCENE_INVALID
    assert scene.ask('get_object_image', ref='cup_9').error_code == REF_NOT_FOUND
    behind = scene.ask('get_object_image', ref='hall')
    assert behind.error_code in (0, SCENE_INVALID)


def test_without_a_camera_that_is_said(processes, robot, home, tmp_path, ros_node):  # noqa: F811
    """No image is asked for unless the parameter says so."""
    start_scene(processes, home, tmp_path)
    scene = Server(ros_node)
    see_cup(robot, scene)
    answer = scene.ask('get_object_image', ref='cup_1')
    assert answer.error_code == SCENE_INVALID and 'image_topic' in answer.error_msg


@pytest.mark.parametrize('what', ['variance', 'orientation', 'size', 'score'])
def test_a_detection_that_is_none_is_left_out(what, processes, robot, home, tmp_path, ros_node):  # noqa: F811
    """It is named with the reason, and nothing else of its frame is lost."""
    process = start_scene(processes, home, tmp_path)
    scene = Server(ros_node)
    see_cup(robot, scene)
    robot.silent.add('detections')
    robot.objects = [('cup', CUP, 'red'), ('bowl', (2.0, 2.3, 0.85), 'blue')]

    def publish():
        frame = robot.observation(robot.now())
        frame.source = 'broken'
        bad = frame.observations[1]
        if what == 'variance':
            bad.pose.covariance[0] = -1.0
        elif what == 'orientation':
            q = bad.pose.pose.orientation
            q.x = q.y = q.z = q.w = 0.0
        elif what == 'size':
            bad.size.x = float('inf')
        else:
            bad.confidence = float('nan')
        robot.detections.publish(frame)
        robot.wait_for_rounds(1)
        return 'left out' in process.output()
    sightings = scene.query(FIND, refs=['cup_1']).objects[0].sightings
    wait_until(publish, 20, process.output)
    assert scene.query(FIND, refs=['cup_1']).objects[0].sightings > sightings
    assert scene.find(class_name='bowl') == []
    assert process.is_running()


def test_detections_come_as_json(processes, robot, home, tmp_path, ros_node):  # noqa: F811
    """A detector without this package's messages sends text; what is no such text is named and hurts nothing."""
    from std_msgs.msg import String
    process = start(processes, 'scene_graph_node', ('semantic_map', home),
                    ('state_directory', tmp_path), ('detections_json_topic', 'boxes'))
    process.wait_for_output('nodes remembered')
    scene = Server(ros_node)
    texts = ros_node.create_publisher(String, 'boxes', 10)
    robot.silent.add('detections')
    cup = {'class': 'Cup', 'score': 0.9, 'position': list(CUP), 'size': [0.08, 0.08, 0.1],
           'attributes': {'color': 'red'}, 'reference': 'crop_1'}

    def see(*detections, **fields):
        """Send a frame."""
        texts.publish(String(data=json.dumps(
            {'frame_id': 'map', 'source': 'yolo', 'detections': detections, **fields})))
        robot.wait_for_rounds(1)

    def is_seen():
        see(cup)
        return scene.find(class_name='cup', text='red') == ['cup_1']
    wait_until(is_seen, 20, process.output)
    found = scene.query(FIND, refs=['cup_1']).objects[0]
    assert found.evidence and ('cup_1', 'on', 'table_1') in {
        (r.subject, r.relation, r.object) for r in scene.query(ALL).relations}
    for word, bad in (('boxes', {'boxes': []}), ('length 3', {'detections': [{**cup, 'position': [1]}]}),
                      ('the limit is 1048576', {'reference': 'x' * 1048576})):
        def is_named():
            see(cup, **bad)  # noqa: B023
            return word in process.output()  # noqa: B023
        wait_until(is_named, 30, process.output)
    # Numbers are judged as those of the message are.
    wait_until(lambda: see({**cup, 'score': 7}) or 'left out' in process.output(), 20, process.output)
    # A frame that nothing connects with the map is dropped, and the next one is taken.
    wait_until(lambda: see(cup, frame_id='moon') or 'its transform did not come' in process.output(),
               20, process.output)
    sightings = scene.query(FIND, refs=['cup_1']).objects[0].sightings
    wait_until(lambda: see(cup) or scene.query(FIND, refs=['cup_1']).objects[0].sightings > sightings,
               20, process.output)
    assert process.is_running()


def test_a_flood_of_detections_is_cut_and_named(processes, robot, home, tmp_path, ros_node):  # noqa: F811
    """What is left out of a frame with thousands of detections proves no absence, and queries are answered."""
    process = start_scene(processes, home, tmp_path)
    scene = Server(ros_node)
    see_cup(robot, scene)
    robot.silent.add('detections')
    robot.objects = [('bowl', (2.0, 2.3, 0.85), 'blue')]
    frame = robot.observation(robot.now())
    frame.source = 'flood'
    # None of them counts, so that the tracker alone would take the frame for one without the cup.
    frame.observations[0].confidence = 0.0
    frame.observations = frame.observations * 1100
    confidence = scene.query(FIND, refs=['cup_1']).objects[0].confidence
    for _ in range(8):
        frame.header.stamp = robot.now()
        robot.detections.publish(frame)
        robot.wait_for_rounds(2)
        assert scene.query(BRIEF).error_code == 0
    process.wait_for_output('has 1100 detections, the limit is 1024')
    # A frame that was still under way may have raised it.
    assert scene.query(FIND, refs=['cup_1']).objects[0].confidence >= confidence
    assert process.is_running()
