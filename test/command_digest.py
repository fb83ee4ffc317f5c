"""The digest of a SkillCommand, as an adapter or issuer in another language computes it.

BLAKE3 as its specification describes it (https://github.com/BLAKE3-team/BLAKE3-specs), hash mode only.
"""

import json
import struct

IV = (0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A,
      0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19)
PERMUTATION = (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)
CHUNK_START, CHUNK_END, PARENT, ROOT = 1, 2, 4, 8
CHUNK, BLOCK = 1024, 64
MASK = 0xFFFFFFFF


def _compress(chaining, block, counter, length, flags):
    state = list(chaining) + list(IV[:4]) + [
        counter & MASK, counter >> 32, length, flags]
    words = list(struct.unpack('<16I', block.ljust(BLOCK, b'\0')))

    def mix(a, b, c, d, x, y):
        for word, first, second in ((x, 16, 12), (y, 8, 7)):
            state[a] = (state[a] + state[b] + word) & MASK
            state[d] = _rotate(state[d] ^ state[a], first)
            state[c] = (state[c] + state[d]) & MASK
            state[b] = _rotate(state[b] ^ state[c], second)

    for _ in range(7):
        for i, (a, b, c, d) in enumerate((
                (0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
                (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))):
            mix(a, b, c, d, words[2 * i], words[2 * i + 1])
        words = [words[p] for p in PERMUTATION]
    return [state[i] ^ state[i + 8] for i in range(8)]


def _rotate(value, bits):
    return ((value >> bits) | (value << (32 - bits))) & MASK


def _chunk(data, counter, flags):
    chaining = IV
    blocks = [data[i:i + BLOCK] for i in range(0, len(data), BLOCK)] or [b'']
    for i, block in enumerate(blocks):
        here = CHUNK_START if i == 0 else 0
        if i == len(blocks) - 1:
            here |= CHUNK_END | flags
        chaining = _compress(chaining, block, counter, len(block), here)
    return chaining


def _tree(data, counter, flags):
    if len(data) <= CHUNK:
        return _chunk(data, counter, flags)
    # The left part is the largest power of two of chunks that leaves something for the right.
    left = CHUNK
    while 2 * left < len(data):
        left *= 2
    words = _tree(data[:left], counter, 0) + _tree(data[left:], counter + left // CHUNK, 0)
    return _compress(IV, struct.pack('<16I', *words), 0, BLOCK, PARENT | flags)


def blake3(data):
    """Return the hash as 64 hex digits."""
    return struct.pack('<8I', *_tree(data, 0, ROOT)).hex()


KINDS = ('unspecified', 'building', 'floor', 'room', 'surface', 'container', 'object', 'person',
         'robot', 'place', 'door')


def _duration(message):
    if message.sec < 0:
        return {'secs': 0, 'nanos': 0}
    return {'secs': message.sec, 'nanos': message.nanosec}


def _vector(message):
    return {'x': message.x, 'y': message.y, 'z': message.z}


def _pose(message):
    q = message.orientation
    return {'position': _vector(message.position), 'orientation': [q.x, q.y, q.z, q.w]}


def _target(message):
    support = None
    if message.support:
        support = {'ref': message.support, 'pose': _pose(message.support_pose),
                   'size': _vector(message.support_size)}
    return {
        'argument': message.argument, 'ref': message.ref, 'class_name': message.class_name,
        'kind': KINDS[message.kind], 'version': message.version, 'frame_id': message.frame_id,
        'pose': _pose(message.pose), 'size': _vector(message.size),
        'last_seen': message.last_seen.sec * 10**9 + message.last_seen.nanosec, 'support': support}


def _precondition(message):
    return {
        'ref': message.ref, 'version': message.version, 'same_version': message.same_version,
        'max_age': _duration(message.max_age), 'max_displacement': message.max_displacement,
        'predicates': json.loads(message.predicates_json) if message.predicates_json else None}


def canonical(command):
    """Return the canonical JSON of a SkillCommand message."""
    fields = {name: getattr(command, name) for name in (
        'schema_version', 'command_id', 'task_id', 'robot_id', 'skill', 'skill_version',
        'world_version', 'plan_version', 'max_segments')}
    fields.update({name: _duration(getattr(command, name)) for name in (
        'start_within', 'execution_timeout', 'stop_timeout')})
    fields['arguments'] = json.loads(command.arguments_json or '{}')
    fields['targets'] = [_target(t) for t in command.targets]
    fields['preconditions'] = [_precondition(p) for p in command.preconditions]
    return json.dumps(fields, sort_keys=True, separators=(',', ':'), ensure_ascii=False)


def digest(command):
    """Return the digest of a SkillCommand message."""
    return blake3(canonical(command).encode())
