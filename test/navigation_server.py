"""A NavigateToPose server in a process of its own, which can be killed and can forget.

    python3 test/navigation_server.py SECONDS RESULT_TIMEOUT [--ros-args ...]

Each goal takes SECONDS and succeeds; its result is kept for RESULT_TIMEOUT seconds. It tells on standard output
what it started and what it ended.
"""

import sys
import time
import uuid

from nav2_msgs.action import NavigateToPose
import rclpy
from rclpy.action import ActionServer, CancelResponse
from rclpy.executors import ExternalShutdownException, MultiThreadedExecutor


def main():
    """Serve until the process is ended."""
    seconds, kept = float(sys.argv[1]), float(sys.argv[2])
    rclpy.init()
    node = rclpy.create_node('navigation_server')

    def execute(handle):
        name = uuid.UUID(bytes=bytes(handle.goal_id.uuid))
        print('started', name, flush=True)
        until = time.monotonic() + seconds
        # The loop is the motion: it ends by time or by a cancel.
        while time.monotonic() < until and not handle.is_cancel_requested:
            time.sleep(0.01)
        if handle.is_cancel_requested:
            handle.canceled()
            print('canceled', name, flush=True)
        else:
            handle.succeed()
            print('reached', name, flush=True)
        return NavigateToPose.Result()

    server = ActionServer(
        node, NavigateToPose, 'navigate_to_pose', execute, result_timeout=kept,
        cancel_callback=lambda _: CancelResponse.ACCEPT)
    print('ready', flush=True)
    try:
        rclpy.spin(node, MultiThreadedExecutor(4))
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    finally:
        server.destroy()


if __name__ == '__main__':
    main()
