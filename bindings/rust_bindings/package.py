"""One package: reads its definitions and writes its Rust folder."""

import pathlib

from rosidl_parser.definition import Action
from rosidl_parser.definition import IdlLocator
from rosidl_parser.definition import Message
from rosidl_parser.definition import Service
from rosidl_parser.parser import parse_idl_file

from .action import action
from .message import idiomatic_form
from .message import rmw_form
from .service import service
from .types import TypeNames

KINDS = ('msg', 'srv', 'action')
HEADER = '// Generated from the interface definitions of {}. Do not edit.'


def definition_files(root):
    """Return the .idl files below root, by kind, in a fixed order."""
    return {kind: sorted((root / kind).glob('*.idl')) for kind in KINDS}


class Package:
    """The definitions of one interface package."""

    def __init__(self, name, version, root):
        """Read the .idl files in root/msg, root/srv and root/action."""
        self.name = name
        self.version = version
        self.dependencies = set()
        self._types = TypeNames(name, self.dependencies)
        self._sources = {}
        for kind, files in definition_files(pathlib.Path(root)).items():
            if files:
                self._read(kind, files)

    def _read(self, kind, files):
        messages, services, actions = [], [], []
        for path in files:
            content = parse_idl_file(IdlLocator(path.parent, path.name)).content
            messages += content.get_elements_of_type(Message)
            services += content.get_elements_of_type(Service)
            actions += content.get_elements_of_type(Action)
        for definition in actions:
            messages += [
                definition.goal, definition.result, definition.feedback,
                definition.feedback_message]
            services += [definition.send_goal_service, definition.get_result_service]
        for definition in services:
            messages += [definition.request_message, definition.response_message]
        rmw, idiomatic = [HEADER.format(self.name)], [HEADER.format(self.name)]
        for message in messages:
            rmw += ['', *rmw_form(message, self._types)]
            idiomatic += ['', *idiomatic_form(message, self._types)]
        for definition in services:
            rmw += ['', *service(definition)]
            idiomatic += ['', *service(definition)]
        for definition in actions:
            idiomatic += ['', *action(definition, self.dependencies)]
        self._sources[kind] = (idiomatic, rmw)

    def manifest(self):
        """Return the text of Cargo.toml."""
        lines = [
            '[package]',
            'name = "{}"'.format(self.name),
            'version = "{}"'.format(self.version),
            'edition = "2021"',
            '',
            '[dependencies]',
            'rosidl_runtime_rs = "0.7"']
        lines += ['{} = "*"'.format(name) for name in sorted(self.dependencies)]
        lines += ['', '[package.metadata.ros-env]', 'include = true', '']
        return '\n'.join(lines)

    def library(self):
        """Return the text of lib.rs, for use as a crate of its own."""
        lines = [HEADER.format(self.name), '#![allow(missing_docs)]']
        for kind in self._sources:
            lines += [
                'pub mod {} {{'.format(kind),
                '    include!("{}.rs");'.format(kind),
                '    pub mod rmw {',
                '        include!("{}/rmw.rs");'.format(kind),
                '    }',
                '}']
        return '\n'.join(lines) + '\n'

    def write(self, folder):
        """Write the Rust folder of the package; files that would not change are left alone."""
        folder = pathlib.Path(folder)
        texts = {
            folder / 'Cargo.toml': self.manifest(),
            folder / 'src' / 'lib.rs': self.library()}
        for kind, (idiomatic, rmw) in self._sources.items():
            texts[folder / 'src' / (kind + '.rs')] = '\n'.join(idiomatic) + '\n'
            texts[folder / 'src' / kind / 'rmw.rs'] = '\n'.join(rmw) + '\n'
        for stale in set(folder.glob('src/**/*.rs')) - set(texts):
            stale.unlink()
        for path, text in texts.items():
            write_if_changed(path, text)


def write_if_changed(path, text):
    """Write a file unless it already holds the text, so that builds see only real changes."""
    if path.is_file() and path.read_text(encoding='utf-8') == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding='utf-8')
